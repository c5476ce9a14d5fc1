//! Objects that were read.

use gix::ObjectId;
use gix::bstr::BStr;
use gix::error::Result;
use gix::objs::{CommitRefIter, Kind, TreeRefIter};

/// An object with its bytes.
#[derive(Debug, Clone)]
pub struct Object {
    /// Its id.
    pub id: ObjectId,
    /// What it is.
    pub kind: Kind,
    /// Its bytes, without the header.
    pub data: Vec<u8>,
}

/// An object that is a commit.
#[derive(Debug, Clone)]
pub struct Commit(pub(super) Object);

impl Commit {
    /// Its fields, read as they are asked for.
    fn fields(&self) -> CommitRefIter<'_> {
        CommitRefIter::from_bytes(&self.0.data, self.0.id.kind())
    }

    /// The id of its tree.
    ///
    /// # Errors
    /// Where the commit is damaged.
    pub fn tree_id(&self) -> Result<ObjectId> {
        self.fields().tree_id()
    }

    /// The commits before it.
    pub fn parent_ids(&self) -> impl Iterator<Item = ObjectId> {
        self.fields().parent_ids()
    }

    /// Its message, as it is stored.
    ///
    /// # Errors
    /// Where the commit is damaged.
    pub fn message_raw(&self) -> Result<&BStr> {
        self.fields().message()
    }

    /// The name of its author.
    ///
    /// # Errors
    /// Where the commit is damaged.
    pub fn author_name(&self) -> Result<&BStr> {
        Ok(self.fields().author()?.name)
    }

    /// When it was made, in seconds since 1970.
    ///
    /// # Errors
    /// Where the commit is damaged.
    pub fn seconds(&self) -> Result<i64> {
        Ok(self.fields().committer()?.time()?.seconds)
    }
}

/// An object that is a tree.
#[derive(Debug, Clone)]
pub struct Tree(pub(super) Object);

impl Tree {
    /// Its entries, in the order in which they are stored.
    pub fn iter(&self) -> TreeRefIter<'_> {
        TreeRefIter::from_bytes(&self.0.data, self.0.id.kind())
    }

    /// Its bytes.
    pub fn data(&self) -> &[u8] {
        &self.0.data
    }
}
