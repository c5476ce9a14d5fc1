//! Chooses among the names that a plain diff gives one file, by what the tree holds.

use super::model::{FilePatch, Operation, Patch, Prefix};

impl Patch<'_> {
    /// Settles the names of plain diffs that only the tree can settle; `stands` tells whether
    /// anything is at a path.
    ///
    /// `--- f.orig` and `+++ f` speak of the one that is there, the new one first. `--- old/f` and
    /// `+++ new/f` are of the file `f` where nothing stands at either.
    pub fn settle(&mut self, stands: &dyn Fn(&[u8]) -> bool) {
        for file in &mut self.files {
            file.settle(stands);
        }
    }
}

impl FilePatch<'_> {
    /// Settles the names of one file.
    fn settle(&mut self, stands: &dyn Fn(&[u8]) -> bool) {
        if self.other_name.is_none() && self.prefix != Prefix::Folders {
            return;
        }
        let written = self.new_path.as_ref().or(self.old_path.as_ref());
        let Some(name) = written.filter(|name| !stands(name)) else { return };
        if let Some(other) = self.other_name.take_if(|other| stands(other)) {
            (self.old_path, self.new_path) = (Some(other.clone()), Some(other));
        } else if self.prefix == Prefix::Folders && is_prefixed(self.operation, name, stands) {
            self.prefix = Prefix::Present;
        }
    }
}

/// Whether the first folder of `name`, at which nothing stands, is a prefix.
fn is_prefixed(operation: Operation, name: &[u8], stands: &dyn Fn(&[u8]) -> bool) -> bool {
    let Some(slash) = name.iter().position(|byte| *byte == b'/') else { return false };
    let (folder, rest) = name.split_at_checked(slash).unwrap_or_default();
    match operation {
        // A file that comes or is gone: the folder decides.
        Operation::Create | Operation::Delete => !stands(folder) || rest.get(1..).is_some_and(stands),
        Operation::Modify | Operation::Rename | Operation::Copy => rest.get(1..).is_some_and(stands),
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Strip;
    use super::super::parse;

    /// The path that a diff between `old` and `new` changes in a tree with `there`.
    fn settled(old: &str, new: &str, there: &[&str]) -> String {
        let text = format!("--- {old}\n+++ {new}\n@@ -1 +1 @@\n-a\n+b\n");
        let mut patch = parse(text.as_bytes()).unwrap();
        patch.settle(&|path| there.iter().any(|there| there.as_bytes() == path));
        let paths = patch.files[0].paths(Strip::Auto).unwrap();
        assert_eq!(paths.old, paths.new);
        String::from_utf8(paths.new.unwrap()).unwrap()
    }

    #[test]
    fn the_name_that_is_there_is_meant() {
        assert_eq!(settled("f.orig", "f", &["f", "f.orig"]), "f");
        assert_eq!(settled("f", "f.new", &["f"]), "f");
        assert_eq!(settled("f", "f.new", &["f", "f.new"]), "f.new");
        assert_eq!(settled("f", "g", &[]), "g");
        assert_eq!(settled("old/f", "new/f", &["f"]), "f");
        assert_eq!(settled("old/f", "new/f", &["f", "old", "old/f"]), "old/f");
        assert_eq!(settled("old/f", "new/f", &["f", "new", "new/f"]), "new/f");
        assert_eq!(settled("old/d/f", "new/d/f", &["d", "d/f"]), "d/f");
        assert_eq!(settled("a/f", "b/f", &["b/f"]), "f", "git's prefixes are always such");
    }
}
