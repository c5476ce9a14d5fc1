//! Bounds of sizes, numbers and times, by the part that keeps them. Those that depend on other constants are with
//! these, and all that a user can set are in `engine/policy/settings.rs`.

use std::time::Duration;

// --- app ---

/// Largest request that is passed as an argument, in bytes.
pub const ARGUMENT_BYTES_MAX: usize = 100_000;
/// Largest number of processes between a client and lbx.
pub const CLIENT_DEPTH_MAX: usize = 16;
/// Bytes of a description that the person sees.
pub const QUESTION_BYTES_MAX: usize = 16_000;
/// Longest time that a cancelled call in a container has to end by itself.
pub const REMOTE_END_TIME_MAX: Duration = Duration::from_secs(5);

// --- dialect ---

/// Largest number of files that `read_many_files` reads.
pub const MANY_FILES_MAX: usize = 100;

// --- engine/change ---

/// Largest `.gitattributes` or `.editorconfig` that is read, in bytes.
pub const ATTRIBUTES_BYTES_MAX: u64 = 64 << 10;
/// Most files of one change whose earlier versions are looked up.
pub const FORMER_FILES_MAX: usize = 64;
/// Most ranges of lines in a read record; further lines count as not shown.
pub const MARK_RANGES_MAX: usize = 4096;

// --- engine/history ---

/// Largest file of the calls that a client has begun, in bytes.
pub const CLIENT_CALLS_BYTES_MAX: u64 = 64 << 20;
/// Largest account of a session's changes, in bytes.
pub const SESSION_ACCOUNT_BYTES_MAX: u64 = 64 << 20;
/// Largest file of a session's turns, in bytes.
pub const TURNS_BYTES_MAX: u64 = 1 << 20;

// --- engine/journal ---

/// Most old bytes of one file in an entry; larger files have backups.
pub const INLINE_BACKUP_BYTES_MAX: usize = 16 << 10;
/// Most bundles that a call keeps open.
pub const OPEN_BUNDLES_MAX: usize = 8;

// --- engine/policy ---

/// Most names of one folder that are searched for links to protected files.
pub const LINK_NAMES_MAX: usize = 10_000;
/// Most folders above the root that are searched for policy files.
pub const PARENT_LEVELS_MAX: usize = 64;
/// Largest policy file, in bytes.
pub const POLICY_FILE_BYTES_MAX: u64 = 256 << 10;
/// Most characters of a setting that a message repeats.
pub const VALUE_CHARACTERS_MAX: usize = 60;

// --- engine/sandbox ---

/// Number of tries to open a session's cache, which other calls may remove.
pub const CACHE_TRIES_MAX: usize = 20;
/// Largest file of a repository that is compared by content, in bytes; of a larger one, size and times are compared.
pub const COMPARED_FILE_BYTES_MAX: u64 = 1 << 20;
/// Largest file of a control group, in bytes.
pub const CONTROL_GROUP_FILE_BYTES_MAX: u64 = 64 << 10;
/// Most folders above a hidden path, for Landlock.
pub const HIDDEN_DEPTH_MAX: usize = 64;
/// Longest host name, in bytes (RFC 1035, 2.3.4).
pub const HOST_BYTES_MAX: usize = 253;
/// Characters of a host's name that a message repeats.
pub const HOST_CHARACTERS_MAX: usize = 300;
/// Number of passes over the processes of a command: meanwhile they start others.
pub const KILL_PASSES_MAX: usize = 10;
/// Largest list of known repositories, in bytes.
pub const KNOWN_REPOSITORIES_BYTES_MAX: u64 = 4 << 20;
/// Most folders in the list of known repositories; with more, each transaction searches.
pub const KNOWN_REPOSITORIES_MAX: usize = 10_000;
/// Largest number of folders whose entries are allowed one by one.
pub const LANDLOCK_FOLDERS_MAX: usize = 10_000;
/// Bytes of a command's output that are kept in memory if the response has no limit.
pub const OUTPUT_BYTES_MAX: usize = 16 << 20;
/// Longest line that is reported as progress, in bytes; longer ones are cut.
pub const PROGRESS_LINE_BYTES_MAX: usize = 500;
/// Number of tries to remove a control group whose last process is about to end.
pub const REMOVAL_TRIES_MAX: usize = 50;
/// Longest search for repositories: a command whose workspace was not searched does not run.
pub const REPOSITORY_SEARCH_TIME_MAX: Duration = Duration::from_secs(60);
/// Most threads that search for repositories; beyond it, the kernel's locks are the limit.
pub const REPOSITORY_THREADS_MAX: usize = 8;
/// Time that a sandbox has to end by itself, beyond the time of its processes.
pub const SANDBOX_END_TIME_MAX: Duration = Duration::from_secs(4);
/// Largest depth of nested submodule repositories.
pub const SUBMODULE_DEPTH_MAX: usize = 16;
/// Largest number of watched folders; the kernel's limit may be lower.
pub const WATCHED_FOLDERS_MAX: usize = 200_000;

// --- engine/snapshot ---

/// Longest content of a reference, in bytes.
pub const ANY_REF_BYTES_MAX: u64 = 4096;
/// Most values of the snapshot branch that a repair tries, newest first.
pub const BRANCH_VALUES_MAX: usize = 50;
/// Most tree entries that are cached between lookups.
pub const CACHED_ENTRIES_MAX: usize = 200_000;
/// Most bytes of read objects kept in memory: a snapshot is read again as the parent of the next one, which shares most
/// of its trees.
pub const CACHED_OBJECT_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Most bytes that one call packs, before compression.
pub const CALL_PACK_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Time after which a call packs no further object.
pub const CALL_PACK_TIME_MAX: Duration = Duration::from_millis(10);
/// Most folders that a comparison opens: a tree may name one folder a thousand times, on each of ten levels.
pub const COMPARED_FOLDERS_MAX: usize = 500_000;
/// Most bytes of the files of one folder that enter at once.
pub const FOLDER_BYTES_MAX: u64 = 512 << 20;
/// Most files of one folder that enter at once; the next full scan adds the rest.
pub const FOLDER_FILES_MAX: usize = 50_000;
/// Most tries to make a folder that other calls or git remove.
pub const FOLDER_TRIES_MAX: usize = 10;
/// Most entries of a tree that is turned into an index of the scan.
pub const INDEX_ENTRIES_MAX: usize = 1_000_000;
/// Most names in the folder of scan indexes that are read.
pub const INDEX_NAMES_MAX: usize = 1000;
/// Number of lbx's packs that triggers a join.
pub const LBX_PACKS_MAX: usize = 16;
/// Most paths of one snapshot in a listing.
pub const LOG_PATHS_MAX: usize = 10_000;
/// Largest file of a loose object that is packed without a look at its size, in bytes.
pub const LOOSE_FILE_BYTES_MAX: u64 = 64 << 10;
/// Most damaged references that an error names.
pub const NAMED_REFS_MAX: usize = 5;
/// Most threads that write objects at once.
pub const OBJECT_THREADS_MAX: usize = 8;
/// Longest command line of a git that may be packing, in bytes.
pub const PACK_COMMAND_BYTES_MAX: u64 = 4096;
/// Most files in a folder of packs.
pub const PACK_FILES_MAX: usize = 100_000;
/// Most bytes of new blobs in memory while more are read.
pub const PREPARED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most folders of branches that are searched.
pub const REF_FOLDERS_MAX: usize = 1000;
/// Most pairs of a deleted and a new file whose contents are compared.
pub const RENAME_PAIRS_MAX: usize = 400;
/// Largest file that is merged by lines, in bytes.
pub const MERGED_BYTES_MAX: u64 = 8 << 20;
/// Most pairs of a removed and a new file whose contents a merge compares.
pub const MERGE_RENAME_PAIRS_MAX: usize = 10_000;
/// Most commits between two values of the branch in a repair.
pub const REPAIR_COMMITS_MAX: usize = 1000;
/// Most paths of one snapshot whose content a repair reads.
pub const REPAIR_PATHS_MAX: usize = 1000;
/// Most steps back in a revision's name.
pub const REVISION_STEPS_MAX: usize = 100_000;
/// Most threads of a scan; more would only wait for the kernel's locks.
pub const SCAN_THREADS_MAX: usize = 8;
/// Most folders that are searched for files of a folder that enters.
pub const SEARCHED_FOLDERS_MAX: usize = 50_000;
/// Largest account of a session's snapshots, in bytes.
pub const SNAPSHOT_ACCOUNT_BYTES_MAX: u64 = 64 << 20;
/// Default size limit of a file in a snapshot, in bytes.
pub const SNAPSHOT_FILE_BYTES_MAX: u64 = 50 * 1024 * 1024;
/// Most changes whose missed snapshots are made later.
pub const MISSED_SNAPSHOTS_MAX: usize = 1_000;
/// Most paths of one snapshot that are read.
pub const SNAPSHOT_PATHS_MAX: usize = 100_000;
/// Most paths that are compared for the subject of a scan's commit.
pub const SUBJECT_PATHS_MAX: usize = 100_000;
/// Deepest nesting of trees that is written and read, in folders: each level costs more than the one above, and git
/// itself stops at 2,048.
pub const TREE_DEPTH_MAX: usize = 1024;
/// Most folders that are opened to apply a moved HEAD: a tree may name one folder a thousand times, on each of ten
/// levels.
pub const TREE_FOLDERS_MAX: usize = 500_000;

// --- engine/store ---

/// Largest audit file that is read back, in bytes: a full one plus the longest record.
pub const AUDIT_FILE_BYTES_MAX: u64 = 48 << 20;
/// Most paths in an audit record; of the others only the number is kept.
pub const AUDIT_PATHS_MAX: usize = 1000;
/// Largest file of counted calls that is read, in bytes.
pub const CALLS_FILE_BYTES_MAX: u64 = 4 << 20;
/// Most bytes of an engine's error message.
pub const ENGINE_MESSAGE_BYTES_MAX: usize = 400;
/// Largest log of hooks that is read, in bytes.
pub const HOOK_LOG_BYTES_MAX: u64 = 1 << 20;
/// Largest size of the id file, in bytes.
pub const ID_FILE_BYTES_MAX: usize = 64;
/// Most folders of the state that are kept open.
pub const OPEN_FOLDERS_MAX: usize = 16;
/// Largest file of which a copy is kept when it is read, in bytes.
pub const READ_COPY_BYTES_MAX: u64 = 64 << 10;
/// Most levels above the leaves: a full tree of that many has more records than a file has bytes.
pub const READ_TREE_LEVELS_MAX: u32 = 8;
/// Largest list of named sandboxes, in bytes.
pub const SANDBOXES_BYTES_MAX: u64 = 1 << 20;
/// Largest number of forks of a workspace.
pub const FORKS_MAX: usize = 64;
/// Most changed files of a fork that a list counts.
pub const FORK_FILES_COUNTED_MAX: usize = 10_000;
/// Most changes of a fork that a review of several shows.
pub const REVIEWED_CHANGES_MAX: usize = 10;
/// Largest index of a workspace at which each call in its forks may look for changes of others, in bytes: some 5,000
/// files.
pub const FORK_SCANNED_INDEX_BYTES_MAX: u64 = 512 << 10;
/// Most files that a fork takes from a snapshot.
pub const FORK_FILES_SET_MAX: usize = 100_000;
/// Largest list of the merges of a fork, in bytes.
pub const FORK_MERGES_BYTES_MAX: u64 = 4 << 20;
/// Largest record of a fork, in bytes.
pub const FORK_RECORD_BYTES_MAX: u64 = 1 << 20;
/// Largest file of a reference that a fork copies, in bytes.
pub const GIT_HEAD_BYTES_MAX: u64 = 4 << 10;
/// Most references of git that are looked at in a fork.
pub const GIT_REFERENCES_MAX: usize = 100_000;
/// Largest index and largest file of packed references that a fork copies, in bytes.
pub const GIT_INDEX_BYTES_MAX: u64 = 1 << 30;
/// Largest list of the mounts of a process, in bytes.
pub const MOUNTS_BYTES_MAX: u64 = 1 << 20;
/// Largest state file without what is left of earlier states, in bytes: some 100,000 marks; beyond it the oldest are
/// dropped.
pub const SESSION_BYTES_MAX: u64 = 32 << 20;
/// Most folders between the user's state folder and the root of the file system.
pub const STATE_DEPTH_MAX: usize = 1000;
/// Size of a state from which its read records are stored in the tree, in bytes.
pub const STATE_LINE_BYTES_MAX: usize = 16 << 10;
/// Most read records that a state holds itself; with more, all are stored in the tree.
pub const STATE_RECORDS_MAX: usize = 24;

// --- engine/workspace ---

/// Most bytes of all cached values, as their makers estimate them.
pub const CACHED_BYTES_MAX: usize = 768 << 10;
/// Most files whose values are cached.
pub const CACHED_FILES_MAX: usize = 256;
/// Largest file that is cached, in bytes.
pub const CACHED_FILE_BYTES_MAX: usize = 32 << 10;
/// Most other values that are cached.
pub const CACHED_VALUES_MAX: usize = 64;
/// Largest file that the policy may allow to change, in bytes: recovery reads no larger ones.
pub const CHANGED_FILE_BYTES_MAX: u64 = 4 << 30;
/// Most bytes in all files for a digest of their bytes.
pub const DIGESTED_BYTES_MAX: u64 = 64 << 20;
/// Most files for a digest of their bytes.
pub const DIGESTED_FILES_MAX: usize = 10_000;
/// Most bytes in all rule files for one path.
pub const PATH_RULES_BYTES_MAX: u64 = 1024 * 1024;
/// Most passes over a folder that is not empty in the end: some file systems skip names while others are removed.
pub const REMOVAL_PASSES_MAX: usize = 3;
/// Largest rule file that is read, in bytes.
pub const RULE_FILE_BYTES_MAX: u64 = 256 * 1024;
/// Most lines of a rule file.
pub const RULE_LINES_MAX: usize = 10_000;
/// Most `**` in one pattern of a rule file.
pub const RULE_STARS_MAX: usize = 4;

// --- error.rs ---

/// Longest message, and longest path next to it, in bytes: the longest path that Linux opens.
pub const ERROR_TEXT_BYTES_MAX: usize = 4096;

// --- mcp ---

/// Largest message from the client, in bytes: fits 10 MB of text even if most of it is escaped.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Most queued calls of a connection that are looked at for the next one to begin.
pub const QUEUED_CALLS_MAX: usize = 64;
/// Largest file that is a resource, in bytes: twice that, escaped, still fits a message.
pub const RESOURCE_BYTES_MAX: usize = 1_700_000;
/// Largest payload of a text result, in bytes.
pub const RESULT_TEXT_BYTES_MAX: u64 = 3_400_000;

// --- search ---

/// Most skipped entries that are listed.
pub const LISTED_ENTRIES_MAX: usize = 5_000;
/// Longest line, or file in a multi-line search, in bytes.
pub const SEARCH_LINE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Most paths in one search.
pub const SEARCH_PATHS_MAX: usize = 10_000;
/// Most threads of a search: one thread feeds them all, so more do not help.
pub const SEARCH_THREADS_MAX: usize = 12;
/// Most skipped entries that are searched for a hint.
pub const SKIPPED_ENTRIES_MAX: u64 = 5_000;
/// Largest skipped file that is searched for a hint, in bytes.
pub const SKIPPED_FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Most entries that can be sorted: about 100 MB of paths.
pub const SORTED_ENTRIES_MAX: usize = 1_000_000;
/// Most levels below a path that a walk enters.
pub const WALK_DEPTH_MAX: usize = 20_000;

// --- text ---

/// Places of the outermost anchor that are followed.
pub const ANCHOR_STARTS_MAX: usize = 64;
/// Pairs of bytes in the candidates for the nearest text that are compared by characters; the first candidate is always
/// compared.
pub const BYTE_PAIRS_MAX: usize = 100_000_000;
/// Headers that are compared to find the nearest.
pub const COMPARED_HEADERS_MAX: usize = 2000;
/// Largest file whose lines a diff compares, in bytes.
pub const DIFFED_BYTES_MAX: usize = 16 << 20;
/// Most lines of a SEARCH/REPLACE block that may divide it: each is tried on the file.
pub const BLOCK_DIVIDERS_MAX: usize = 100;
/// Lines of two texts that are compared; beyond this, all between the common ends counts as replaced.
pub const DIFFED_LINES_MAX: usize = 1 << 20;
/// Places of a flexible match that are collected at most; more would be just as ambiguous.
pub const FLEXIBLE_PLACES_MAX: usize = 1000;
/// Comparisons for one file of a patch, after which a search counts as ambiguous.
pub const HUNK_COMPARISONS_MAX: usize = 10_000_000;
/// Deepest nesting of JSON with comments that is read.
pub const JSONC_DEPTH_MAX: usize = 128;
/// Places for the nearest text, with equal votes, that are compared by characters.
pub const NEAREST_STARTS_MAX: usize = 50;
/// Most parts of a Markdown text that is parsed; more would take too much memory.
pub const OUTLINE_PARTS_MAX: usize = 1 << 20;
/// Number of equal places of a hunk that are reported.
pub const REPORTED_PLACES_MAX: usize = 8;
/// Lines that are compared at most to place the parts; a sketch that needs more counts as ambiguous.
pub const SKETCH_COMPARISONS_MAX: usize = 20_000_000;

// --- tools ---

/// Number of tries to apply a layer, each without the path that failed the last one.
pub const APPLY_TRIES_MAX: usize = 64;
/// Longest command, in bytes: the OS takes no longer argument.
pub const BASH_COMMAND_BYTES_MAX: usize = 128 * 1024 - 1;
/// Longest time limit of a command, in milliseconds.
pub const BASH_TIME_MS_MAX: u64 = 86_400_000;
/// Largest file that `blame` traces, in bytes.
pub const BLAMED_BYTES_MAX: u64 = 16 << 20;
/// Time limit of `blame`.
pub const BLAME_TIME_MAX: Duration = Duration::from_secs(20);
/// Largest file of a client that `init` reads, in bytes.
pub const CLIENT_FILE_BYTES_MAX: u64 = 4 << 20;
/// Most files whose lines are counted for a turn.
pub const COUNTED_FILES_MAX: usize = 200;
/// Largest number of files in a diff.
pub const DIFF_FILES_MAX: usize = 100_000;
/// Largest number of places that are kept during a replacement; a single edit with more is done in two passes.
pub const EDIT_PLACES_MAX: usize = 100_000;
/// Largest file of a client that `doctor` reads, in bytes.
pub const HOOKS_FILE_BYTES_MAX: u64 = 4 << 20;
/// Bytes of a job's command in a response about it.
pub const JOB_COMMAND_BYTES_MAX: usize = 1000;
/// Number of tries to find a free name for a job.
pub const JOB_NAMES_MAX: u64 = 1000;
/// Largest ignore file of a layer that is read, in bytes.
pub const LAYER_RULES_BYTES_MAX: u64 = 1 << 20;
/// Most bytes of a command's changed files that are hashed for the response.
pub const LISTED_HASH_BYTES_MAX: u64 = 2 << 30;
/// Most files that a response of `bash` lists.
pub const LISTED_FILES_MAX: usize = 200;
/// Most sessions whose history is searched for the move of a missing file.
pub const MOVERS_ASKED_MAX: usize = 50;
/// Largest number of sessions that an error names.
pub const NAMED_SESSIONS_MAX: usize = 10;
/// Longest path that is looked for in an output, in bytes.
pub const OUTPUT_PATH_BYTES_MAX: usize = 4096;
/// Folders above a program in which its package is looked for.
pub const PACKAGE_FOLDERS_MAX: usize = 5;
/// Largest number of files in which a pattern is searched as plain text.
pub const PLAIN_FILES_MAX: usize = 5_000;
/// Largest file that is read again after a command, in bytes.
pub const READ_AGAIN_BYTES_MAX: u64 = 64 << 20;
/// Largest number of passes over a file that changes during a read.
pub const READ_PASSES_MAX: usize = 8;
/// Most paths in one read.
pub const READ_PATHS_MAX: usize = 10_000;
/// Most ranges of lines in one read.
pub const READ_RANGES_MAX: usize = 100;
/// Largest diff of one file that `review` shows, in bytes.
pub const REVIEW_DIFF_BYTES_MAX: usize = 1 << 20;
/// Most files with the same name that are searched for an old text.
pub const SEARCHED_FILES_MAX: usize = 20;
/// Largest file that is searched for an old text, in bytes.
pub const SEARCHED_FILE_BYTES_MAX: u64 = 4 << 20;
/// Bytes of the old texts that one pass searches for; it takes some fifty times as much memory.
pub const SOUGHT_BYTES_MAX: usize = 4 << 20;
/// Matches of parts of old texts per byte of a text, after which such a pass ends.
pub const SOUGHT_PER_BYTE_MAX: usize = 2;
/// Bytes of a failed server's output that are kept.
pub const SERVER_OUTPUT_BYTES_MAX: u64 = 4096;
/// Time in which the server that `init` tries must answer.
pub const SERVER_START_TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes of a file's diff in the response of `init`.
pub const SETUP_DIFF_BYTES_MAX: usize = 20_000;
/// Number of line ranges that an entry of `session` names.
pub const SHOWN_RANGES_MAX: usize = 5;
/// Largest first message of a supervisor, in bytes.
pub const SUPERVISOR_MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Total bytes of small untracked files that are kept while a command runs.
pub const UNTRACKED_BYTES_MAX: u64 = 16 << 20;
