//! The commits of one snapshot, each on top of the one before.

use std::time::{SystemTime, UNIX_EPOCH};

use gix::ObjectId;
use gix::objs::Commit;

use super::error::{Doing as _, SnapshotError};
use super::message;
use super::message::Trailers;
use super::refs;
use super::refs::RefTarget;
use super::repo::Repo;
use super::tree;
use crate::text::escaped;

/// Name and address under which every snapshot is committed, so that an agent's never passes
/// for the developer's. The author's name goes on with the session, and the harness where one is known.
const AUTHOR: (&str, &str) = ("lbx", "lbx@localhost");
/// Longest name of a harness, in characters.
const HARNESS_CHARS_MAX: usize = 60;
/// Digits of a commit id in a subject.
const SHORT_DIGITS: usize = 10;
/// The tool named in the commits that hold what others changed.
pub const EXTERNAL: &str = "external";
/// The tool named in the commit that holds what was uncommitted before a session's first change.
pub const BASELINE: &str = "baseline";

/// What all commits of one snapshot have in common.
#[derive(Debug, Clone, Copy)]
pub struct Stamp<'a> {
    /// Session that made the change.
    pub session: &'a str,
    /// Its number in the journal.
    pub seq: u64,
    /// When, in seconds since 1970.
    pub seconds: i64,
    /// What the policy made of a change without proof, where it was one.
    pub gate: Option<&'a str>,
    /// The harness that it is made for, where it named itself.
    pub harness: Option<&'a str>,
}

/// Whole seconds since 1970, as commits count time.
pub fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(0, |seconds| -seconds),
    }
}

/// Commits that grow on top of the branch; none is visible before the branch moves.
pub struct Chain<'a> {
    /// Where the objects go.
    repo: &'a Repo,
    /// What every commit says of its origin.
    stamp: Stamp<'a>,
    /// The newest tree.
    tree: ObjectId,
    /// Parents of the next commit.
    parents: Vec<ObjectId>,
    /// HEAD as the next commit knows it.
    head: Option<ObjectId>,
    /// The commit that HEAD was at when the chain began.
    head_then: Option<ObjectId>,
    /// The newest commit, where there is one already.
    newest: Option<ObjectId>,
}

impl<'a> Chain<'a> {
    /// Begins on top of `tip`, else of HEAD, which names `head`.
    ///
    /// Where HEAD is not the one that `tip` knew, the first commit is `external: HEAD moved to …`;
    /// where that would change nothing, the next commit just gets HEAD as a further parent.
    pub fn begin(
        repo: &'a Repo,
        tip: Option<ObjectId>,
        head: Option<&RefTarget>,
        stamp: Stamp<'a>,
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

    /// Puts the chain on top of `tip`, and takes in what HEAD brings.
    fn continue_from(&mut self, tip: ObjectId, head: Option<&RefTarget>) -> Result<(), SnapshotError> {
        let ours = tree_of(self.repo, tip)?;
        let known = self.known_head(tip)?;
        self.tree = ours;
        self.parents = vec![tip];
        let Some(named) = refs::head_as_named(self.repo, head)? else {
            self.head = known.commit; // unborn again: what was taken in stays known
            return Ok(());
        };
        // A commit that is known already need not be read again.
        let head = if known.commit == Some(named) { named } else { refs::peeled(self.repo, named)? };
        (self.head, self.head_then) = (Some(head), Some(head));
        if known.commit == Some(head) {
            return Ok(());
        }
        if head != tip {
            self.parents.push(head);
        }
        let new = tree_of(self.repo, head)?;
        let old = match (known.is_snapshot, known.commit) {
            (_, Some(known)) => tree_of(self.repo, known).ok(),
            (true, None) => Some(ObjectId::empty_tree(self.repo.object_hash())),
            (false, None) => None,
        };
        let carried = tree::carry_over(self.repo, ours, old.unwrap_or(ours), new)?;
        let short = head.to_hex_with_len(SHORT_DIGITS);
        self.commit(carried, &format!("external: HEAD moved to {short}"), None, EXTERNAL)?;
        Ok(())
    }

    /// The HEAD that the snapshot `tip` knew.
    fn known_head(&self, tip: ObjectId) -> Result<KnownHead, SnapshotError> {
        let commit = self.repo.find_commit(tip).doing(|| format!("the snapshot {tip} cannot be read"))?;
        let text = commit.message_raw().doing(|| format!("the snapshot {tip} is damaged"))?;
        let Some(trailers) = message::trailers(text) else {
            return Ok(KnownHead { commit: None, is_snapshot: false }); // someone else's commit
        };
        let commit = trailers.head.and_then(|hex| ObjectId::from_hex(hex.as_bytes()).ok());
        Ok(KnownHead { commit, is_snapshot: true })
    }

    /// The newest tree.
    pub fn tree(&self) -> ObjectId {
        self.tree
    }

    /// The commit that HEAD was at when the chain began.
    pub fn head_then(&self) -> Option<ObjectId> {
        self.head_then
    }

    /// The newest commit that was made, where there is one.
    pub fn newest(&self) -> Option<ObjectId> {
        self.newest
    }

    /// Commits `tree`, unless it is what the chain has already.
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
        // What others changed is nobody's, whoever had it recorded.
        let is_external = tool == EXTERNAL;
        let trailers = Trailers {
            session: if is_external { String::new() } else { self.stamp.session.to_owned() },
            tool: tool.to_owned(),
            seq: if is_external { 0 } else { self.stamp.seq },
            head: self.head.map(|id| id.to_string()),
            gate: self.stamp.gate.filter(|_| !is_external).map(str::to_owned),
        };
        let time = gix::date::Time::new(self.stamp.seconds, 0);
        let committer = gix::actor::Signature { name: AUTHOR.0.into(), email: AUTHOR.1.into(), time };
        let name = author_of(&trailers.session, self.stamp.harness);
        let author = gix::actor::Signature { name: name.into(), ..committer.clone() };
        let commit = Commit {
            tree,
            parents: self.parents.iter().copied().collect(),
            author,
            committer,
            encoding: None,
            message: message::compose(subject, why, &trailers),
            extra_headers: Vec::new(),
        };
        let id = self.repo.write_object(&commit).doing(|| "cannot write the commit".into())?;
        self.tree = tree;
        self.parents = vec![id];
        self.newest = Some(id);
        Ok(Some(id))
    }
}

/// Variables that a harness sets for what it runs, with its name.
const HARNESSES: [(&str, &str); 6] = [
    ("CLAUDECODE", "Claude Code"),
    ("CLAUDE_CODE_SESSION_ID", "Claude Code"),
    ("CODEX_THREAD_ID", "Codex"),
    ("GEMINI_CLI", "Gemini CLI"),
    ("OPENCODE", "opencode"),
    ("CURSOR_AGENT", "Cursor"),
];

/// The name of a snapshot's author: lbx, with the session and its harness. One that named itself counts
/// more than the environment, which may be that of whatever started it.
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

/// The harness that an author's name goes on with.
pub fn harness_of<'n>(author: &'n str, session: &str) -> Option<&'n str> {
    let rest = author.strip_prefix(AUTHOR.0)?.trim_start().strip_prefix(plain(session).as_str())?;
    rest.strip_prefix(" (")?.strip_suffix(')')
}

/// A name in one line, without what would end the name of an author.
fn plain(name: &str) -> String {
    let is_out = |c: &char| matches!(c, '<' | '>' | '(' | ')');
    let clean: String = name
        .chars()
        .filter(|c| !is_out(c))
        .map(|c| if c.is_control() || escaped::is_active(c) { ' ' } else { c })
        .collect();
    clean.split_whitespace().collect::<Vec<&str>>().join(" ")
}

/// What a snapshot knew of HEAD.
struct KnownHead {
    /// The commit, where HEAD was born.
    commit: Option<ObjectId>,
    /// Whether the commit is a snapshot at all.
    is_snapshot: bool,
}

/// The tree of a commit.
pub fn tree_of(repo: &Repo, commit: ObjectId) -> Result<ObjectId, SnapshotError> {
    let doing = || format!("the commit {commit} cannot be read");
    repo.find_commit(commit).doing(doing)?.tree_id().doing(doing)
}
