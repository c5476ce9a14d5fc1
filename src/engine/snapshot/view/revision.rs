//! From the name of a commit to the commit.

use gix::ObjectId;

use crate::engine::snapshot::store::Store;
use crate::engine::snapshot::store::error::{Doing as _, SnapshotError};
use crate::engine::snapshot::store::message;
use crate::engine::snapshot::store::refs;
use crate::text::likeness;

/// Shortest beginning of an id that is taken for one.
const PREFIX_DIGITS_MIN: usize = 4;
/// Most steps back that a name may ask for.
const STEPS_MAX: usize = 100_000;
/// Snapshots whose ids are compared with one that is not there.
const NEAR_LOOKED_AT: usize = 200;
/// Near snapshots that are named.
const NEAR_NAMED: usize = 3;

impl Store {
    /// The commit, in hex, that `name` names; `None` where there is none, or more than one.
    ///
    /// A name is an id or its unique beginning, `HEAD`, a branch or a tag, each with `~N` or `^`
    /// behind it for the commits before.
    ///
    /// # Errors
    /// Where the repository cannot be read.
    pub fn resolve(&self, name: &str) -> Result<Option<String>, SnapshotError> {
        let Some((base, steps)) = steps_back(name) else {
            return Ok(None);
        };
        let mut found = self.named(base)?;
        for _ in 0..steps {
            let Some(id) = found else { break };
            found = self.parent_of(id)?;
        }
        Ok(found.map(|id| id.to_string()))
    }

    /// The commit before a commit, in hex; `None` for the first.
    ///
    /// # Errors
    /// Where there is no such commit, or it cannot be read.
    pub fn parent(&self, commit: &str) -> Result<Option<String>, SnapshotError> {
        let id = ObjectId::from_hex(commit.as_bytes()).doing(|| format!("`{commit}` is not a commit id"))?;
        Ok(self.parent_of(id)?.map(|id| id.to_string()))
    }

    /// When a commit was made, in seconds since 1970; `None` for a snapshot, which the branch itself
    /// puts in order.
    ///
    /// # Errors
    /// Where there is no such commit, or it cannot be read.
    pub fn time_of_foreign(&self, commit: &str) -> Result<Option<i64>, SnapshotError> {
        let doing = || format!("the commit {commit} cannot be read");
        let id = ObjectId::from_hex(commit.as_bytes()).doing(doing)?;
        let commit = self.repo.find_commit(id).doing(doing)?;
        if commit.message_raw().ok().and_then(message::trailers).is_some() {
            return Ok(None);
        }
        Ok(Some(commit.seconds().doing(doing)?))
    }

    /// The snapshots that `name` may have meant, each as its id and subject.
    #[must_use]
    pub fn near(&self, name: &str) -> Vec<String> {
        let mut recent = Vec::new();
        let mut next = self.branch.tip(&self.repo).ok().flatten();
        while let Some(id) = next.filter(|_| recent.len() < NEAR_LOOKED_AT) {
            let Ok(commit) = self.repo.find_commit(id) else { break };
            let Ok(text) = commit.message_raw() else { break };
            if message::trailers(text).is_none() {
                break;
            }
            recent.push((id.to_string(), message::subject(text)));
            next = commit.parent_ids().next();
        }
        let digits = name.len().clamp(PREFIX_DIGITS_MIN, 40);
        let short = |id: &str| id.chars().take(digits.max(10)).collect::<String>();
        let ids: Vec<&str> = recent.iter().filter_map(|(id, _)| id.get(..digits)).collect();
        let alike = likeness::nearest(name, &ids, NEAR_NAMED, 0.7);
        let is_alike = |id: &str| alike.iter().any(|near| id.starts_with(near));
        let none_is = alike.is_empty();
        let chosen = recent.iter().filter(|(id, _)| none_is || is_alike(id)).take(NEAR_NAMED);
        chosen.map(|(id, subject)| format!("{} {subject}", short(id))).collect()
    }

    /// The commit that a name without steps names.
    fn named(&self, name: &str) -> Result<Option<ObjectId>, SnapshotError> {
        if name == "HEAD" {
            return refs::head(&self.repo);
        }
        if name == self.branch() {
            return self.branch.tip(&self.repo);
        }
        if let Some(id) = refs::resolve_short(&self.repo, name)? {
            return Ok(self.is_commit(id).then_some(id));
        }
        let is_hex = name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex || name.len() < PREFIX_DIGITS_MIN || name.len() > self.repo.object_hash().len_in_hex() {
            return Ok(None);
        }
        let prefix = gix::hash::Prefix::from_hex(&name.to_ascii_lowercase())
            .doing(|| format!("`{name}` is not a commit id"))?;
        let candidates = self.repo.beginning_with(prefix)?;
        let mut commits = candidates.into_iter().filter(|id| self.is_commit(*id));
        match (commits.next(), commits.next()) {
            (Some(only), None) => Ok(Some(only)),
            _ => Ok(None),
        }
    }

    /// Whether an object is a commit.
    fn is_commit(&self, id: ObjectId) -> bool {
        self.repo.header(id).is_ok_and(|(kind, _)| kind == gix::objs::Kind::Commit)
    }

    /// The first parent of a commit.
    pub(in crate::engine::snapshot) fn parent_of(
        &self,
        id: ObjectId,
    ) -> Result<Option<ObjectId>, SnapshotError> {
        let commit = self.repo.find_commit(id).doing(|| format!("the commit {id} cannot be read"))?;
        Ok(commit.parent_ids().next())
    }
}

/// A name without the `~N` and `^` behind it, and how many commits these go back.
fn steps_back(name: &str) -> Option<(&str, usize)> {
    let end = name.find(['~', '^']).unwrap_or(name.len());
    let (base, mut rest) = name.split_at_checked(end)?;
    let mut steps = 0_usize;
    while let Some(sign) = rest.chars().next() {
        let after = rest.get(1..)?;
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let (number, more) = after.split_at_checked(digits)?;
        let number = if number.is_empty() { 1 } else { number.parse::<usize>().ok()? };
        match sign {
            '~' => steps = steps.checked_add(number)?,
            '^' if number == 1 => steps += 1,
            _ => return None,
        }
        rest = more;
    }
    (!base.is_empty() && !base.contains(char::is_control) && steps <= STEPS_MAX).then_some((base, steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_go_back() {
        for (name, meant) in [
            ("HEAD", Some(("HEAD", 0))),
            ("abcd~3", Some(("abcd", 3))),
            ("abcd^^~2", Some(("abcd", 4))),
            ("abcd^2", None),
            ("~1", None),
            ("abcd~x", None),
            ("", None),
        ] {
            assert_eq!(steps_back(name), meant, "{name}");
        }
    }
}
