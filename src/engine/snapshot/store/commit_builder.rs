//! Builds the commits of one snapshot, each on top of the one before, and their messages: subject, body, trailers.

use std::time::{SystemTime, UNIX_EPOCH};

use gix::ObjectId;
use gix::actor::Signature;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::objs::Commit;

use super::refs::{self, RefTarget};
use super::repo::Repo;
use super::tree;
use super::{ErrorContext as _, SnapshotError};
use crate::engine::store::session::SEQ_MAX;
use crate::text::escaped;

/// Name and address of the committer of every snapshot, so that an agent's commit never passes for the developer's. The
/// author's name also has the session, and the harness if known.
const AUTHOR: (&str, &str) = ("lbx", "lbx@localhost");
/// Longest name of a harness, in characters.
const HARNESS_CHARS_MAX: usize = 60;
/// Digits of a commit id in a subject.
const SHORT_DIGITS: usize = 10;
/// Tool name in commits of changes by others.
pub const EXTERNAL: &str = "external";
/// Tool name in the commit of changes that were uncommitted before a session's first change.
pub const BASELINE: &str = "baseline";

/// Metadata shared by all commits of one snapshot.
#[derive(Debug, Clone, Copy, Default)]
pub struct CommitMeta<'a> {
    /// Session that made the change.
    pub session: &'a str,
    /// Its number in the journal.
    pub seq: u64,
    /// Time, in seconds since 1970.
    pub seconds: i64,
    /// Verdict of the policy on a change without proof, if it is one.
    pub gate: Option<&'a str>,
    /// Harness that made the request, if it named itself.
    pub harness: Option<&'a str>,
}

/// Returns whole seconds since 1970, the unit of commit times.
pub fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(0, |seconds| -seconds),
    }
}

/// New commits on top of the branch; invisible until the branch moves.
pub struct CommitBuilder<'a> {
    /// Repository that the objects go to.
    repo: &'a Repo,
    /// Metadata of every commit.
    stamp: CommitMeta<'a>,
    /// The newest tree.
    pub tree: ObjectId,
    /// Parents of the next commit.
    parents: Vec<ObjectId>,
    /// HEAD as recorded by the next commit.
    head: Option<ObjectId>,
    /// Commit at HEAD when the builder began.
    pub head_then: Option<ObjectId>,
    /// Newest commit, if there is one yet.
    pub newest: Option<ObjectId>,
}

impl<'a> CommitBuilder<'a> {
    /// Begins on top of `tip`, or of HEAD, which names `head`.
    ///
    /// If HEAD is not the one that `tip` recorded, the first commit is `external: HEAD moved to …`; if that would
    /// change nothing, the next commit gets HEAD as another parent instead.
    pub fn begin(
        repo: &'a Repo,
        tip: Option<ObjectId>,
        head: Option<&RefTarget>,
        stamp: CommitMeta<'a>,
    ) -> Result<Self, SnapshotError> {
        let empty = ObjectId::empty_tree(repo.object_hash());
        let mut chain =
            Self { repo, stamp, tree: empty, parents: Vec::new(), head: None, head_then: None, newest: None };
        if let Some(tip) = tip {
            chain.continue_from(tip, head)?;
        } else {
            let named = refs::head_as_named(repo, head)?;
            chain.head = named.map(|id| refs::peeled(repo, id)).transpose()?;
            chain.head_then = chain.head;
            chain.parents = chain.head.into_iter().collect();
            chain.tree = chain.head.map_or(Ok(empty), |id| tree_of(repo, id))?;
        }
        Ok(chain)
    }

    /// Starts on top of `tip`, and adds the changes of a moved HEAD.
    fn continue_from(&mut self, tip: ObjectId, head: Option<&RefTarget>) -> Result<(), SnapshotError> {
        let ours = tree_of(self.repo, tip)?;
        let (known, is_snapshot) = self.known_head(tip)?;
        self.tree = ours;
        self.parents = vec![tip];
        let Some(named) = refs::head_as_named(self.repo, head)? else {
            self.head = known; // unborn again: what was taken in stays known
            return Ok(());
        };
        // A known commit need not be read again.
        let head = if known == Some(named) { named } else { refs::peeled(self.repo, named)? };
        (self.head, self.head_then) = (Some(head), Some(head));
        if known == Some(head) {
            return Ok(());
        }
        if head != tip {
            self.parents.push(head);
        }
        let new = tree_of(self.repo, head)?;
        let old = match known {
            Some(known) => tree_of(self.repo, known).ok(),
            None => is_snapshot.then(|| ObjectId::empty_tree(self.repo.object_hash())),
        };
        let carried = tree::apply_changes(self.repo, ours, old.unwrap_or(ours), new)?;
        let short = head.to_hex_with_len(SHORT_DIGITS);
        self.commit(carried, &format!("external: HEAD moved to {short}"), None, EXTERNAL)?;
        Ok(())
    }

    /// Returns the HEAD that `tip` recorded, if it was born, and true if `tip` is a snapshot.
    fn known_head(&self, tip: ObjectId) -> Result<(Option<ObjectId>, bool), SnapshotError> {
        let commit = self.repo.find_commit(tip).context(|| format!("the snapshot {tip} cannot be read"))?;
        let text = commit.message_raw().context(|| format!("the snapshot {tip} is damaged"))?;
        let Some(trailers) = parse_trailers(text) else { return Ok((None, false)) };
        Ok((trailers.head.and_then(|hex| ObjectId::from_hex(hex.as_bytes()).ok()), true))
    }

    /// Commits `tree`, unless it equals the newest tree.
    pub fn commit(
        &mut self,
        tree: ObjectId,
        subject: &str,
        why: Option<&str>,
        tool: &str,
    ) -> Result<Option<ObjectId>, SnapshotError> {
        if tree == self.tree {
            return Ok(None);
        }
        // Changes by others belong to no session, whoever had them recorded.
        let is_external = tool == EXTERNAL;
        let trailers = Trailers {
            session: if is_external { String::new() } else { self.stamp.session.to_owned() },
            tool: tool.to_owned(),
            seq: if is_external { 0 } else { self.stamp.seq },
            head: self.head.map(|id| id.to_string()),
            gate: self.stamp.gate.filter(|_| !is_external).map(str::to_owned),
        };
        let time = gix::date::Time::new(self.stamp.seconds, 0);
        let committer = Signature { name: AUTHOR.0.into(), email: AUTHOR.1.into(), time };
        let name = author_of(&trailers.session, self.stamp.harness);
        let author = Signature { name: name.into(), ..committer.clone() };
        let message = compose(subject, why, &trailers);
        let id = write_commit(self.repo, tree, &self.parents, (author, committer), message)?;
        self.tree = tree;
        self.parents = vec![id];
        self.newest = Some(id);
        Ok(Some(id))
    }
}

/// Keeps a new commit by these two, the author first.
pub fn write_commit(
    repo: &Repo,
    tree: ObjectId,
    parents: &[ObjectId],
    (author, committer): (Signature, Signature),
    message: BString,
) -> Result<ObjectId, SnapshotError> {
    let parents = parents.iter().copied().collect();
    let (encoding, extra_headers) = (None, Vec::new());
    let commit = Commit { tree, parents, author, committer, encoding, message, extra_headers };
    repo.write_object(&commit).context(|| "cannot write the commit".into())
}

/// Environment variables that harnesses set for their child processes, with the harness names.
const HARNESSES: [(&str, &str); 6] = [
    ("CLAUDECODE", "Claude Code"),
    ("CLAUDE_CODE_SESSION_ID", "Claude Code"),
    ("CODEX_THREAD_ID", "Codex"),
    ("GEMINI_CLI", "Gemini CLI"),
    ("OPENCODE", "opencode"),
    ("CURSOR_AGENT", "Cursor"),
];

/// Returns the author name of a snapshot: lbx, the session and its harness. A harness that named itself takes
/// precedence over the environment, which may come from a parent process.
fn author_of(session: &str, named: Option<&str>) -> String {
    if session.is_empty() {
        return AUTHOR.0.to_owned();
    }
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let known =
        || HARNESSES.iter().find(|(variable, _)| is_set(variable)).map(|(_, name)| (*name).to_owned());
    let named = named.map(|name| plain(name).chars().take(HARNESS_CHARS_MAX).collect::<String>());
    let harness = named.filter(|name| !name.is_empty()).or_else(known);
    let harness = harness.map(|name| format!(" ({name})")).unwrap_or_default();
    format!("{} {}{harness}", AUTHOR.0, plain(session))
}

/// Returns the harness in an author's name.
pub fn harness_of<'n>(author: &'n str, session: &str) -> Option<&'n str> {
    let rest = author.strip_prefix(AUTHOR.0)?.trim_start().strip_prefix(plain(session).as_str())?;
    rest.strip_prefix(" (")?.strip_suffix(')')
}

/// Returns a name on one line, without characters that would end an author's name.
fn plain(name: &str) -> String {
    let is_out = |c: &char| matches!(c, '<' | '>' | '(' | ')');
    let clean: String = name
        .chars()
        .filter(|c| !is_out(c))
        .map(|c| if c.is_control() || escaped::is_active(c) { ' ' } else { c })
        .collect();
    clean.split_whitespace().collect::<Vec<&str>>().join(" ")
}

/// Returns the tree of a commit.
pub fn tree_of(repo: &Repo, commit: ObjectId) -> Result<ObjectId, SnapshotError> {
    let doing = || format!("the commit {commit} cannot be read");
    repo.find_commit(commit).context(doing)?.tree_id().context(doing)
}

/// Longest subject that is written, in characters.
const SUBJECT_CHARS_MAX: usize = 200;
/// Longest body that is written, in characters.
const BODY_CHARS_MAX: usize = 16_384;

/// Facts for programs that a snapshot commit carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trailers {
    /// Session that made the change; empty if none did.
    pub session: String,
    /// Tool that made it; `external` for a change from outside lbx.
    pub tool: String,
    /// Number in the journal; 0 if it has none.
    pub seq: u64,
    /// Verdict of the policy on a change whose caller had not seen the bytes: `warn` or `off`.
    pub gate: Option<String>,
    /// HEAD as the snapshot recorded it, in hex; `None` if it was unborn.
    pub head: Option<String>,
}

/// Builds a message.
///
/// The trailers are the last paragraph, so nothing in `why` can pass for one of them.
pub fn compose(subject: &str, why: Option<&str>, trailers: &Trailers) -> BString {
    let body = why.map(body).filter(|why| !why.is_empty()).map(|why| format!("{why}\n\n"));
    let head = trailers.head.as_ref().map(|head| format!("Lbx-Head: {head}\n"));
    let session = one_line(&trailers.session);
    let session = if session.is_empty() { session } else { format!("Lbx-Session: {session}\n") };
    let seq = if trailers.seq == 0 { String::new() } else { format!("Lbx-Seq: {}\n", trailers.seq) };
    let gate = trailers.gate.as_ref().map(|gate| format!("Lbx-Gate: {}\n", one_line(gate)));
    let message = format!(
        "{}\n\n{}{session}Lbx-Tool: {}\n{seq}{}{}",
        one_line(subject),
        body.unwrap_or_default(),
        one_line(&trailers.tool),
        gate.unwrap_or_default(),
        head.unwrap_or_default(),
    );
    message.into()
}

/// Parses the trailers of a message; `None` if it is not a snapshot's.
pub fn parse_trailers(message: &BStr) -> Option<Trailers> {
    let text = message.to_str_lossy();
    let last = text.trim_end().rsplit("\n\n").next()?;
    let find = |key: &str| {
        last.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": ")).map(str::to_owned)
    };
    Some(Trailers {
        session: find("Lbx-Session").unwrap_or_default(),
        tool: find("Lbx-Tool")?,
        seq: match find("Lbx-Seq") {
            Some(seq) => seq.parse().ok().filter(|seq| *seq < SEQ_MAX)?,
            None => 0,
        },
        gate: find("Lbx-Gate"),
        head: find("Lbx-Head"),
    })
}

/// Returns the first line of a message.
pub fn subject_of(message: &BStr) -> String {
    message.lines().next().unwrap_or_default().to_str_lossy().into_owned()
}

/// Returns the body of a snapshot's message, without subject and trailers.
pub fn why_of(message: &BStr) -> Option<String> {
    let text = message.to_str_lossy();
    let (_, rest) = text.trim_end().split_once("\n\n")?;
    rest.rsplit_once("\n\n").map(|(why, _)| why.to_owned())
}

/// Returns `text` without line breaks and control characters, cut to a subject's length.
fn one_line(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    cut(clean.trim(), SUBJECT_CHARS_MAX)
}

/// Returns `text` without control characters other than line breaks and tabs, cut to a body's length.
fn body(text: &str) -> String {
    let clean: String = text
        .replace("\r\n", "\n")
        .chars()
        .map(|c| if c.is_control() && c != '\n' && c != '\t' { ' ' } else { c })
        .collect();
    cut(clean.trim(), BODY_CHARS_MAX)
}

/// Returns the first `chars_max` characters, with an ellipsis if the text was cut.
fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect()
}
