# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_lbx_global_optspecs
    string join \n workspace= session= sandbox= require-snapshot dialect= set= json= t/text 0/null pretty exit-status h/help V/version
end

function __fish_lbx_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_lbx_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_lbx_using_subcommand
    set -l cmd (__fish_lbx_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c lbx -n "__fish_lbx_needs_command" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_needs_command" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_needs_command" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_needs_command" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_needs_command" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_needs_command" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_needs_command" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_needs_command" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_needs_command" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_needs_command" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_needs_command" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_needs_command" -s V -l version -d 'Print version'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "read" -d 'Read lines of a file, and note that this session has seen them'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "write" -d 'Create a file, or replace all of its content'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "edit" -d 'Replace text in a file, where it stands exactly once'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "patch" -d 'Apply a patch to several files, all or none'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "append" -d 'Add text at the end of a file'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "prepend" -d 'Add text at the start of a file'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "insert" -d 'Insert lines after a line of a file'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "section" -d 'Replace a section of a Markdown file, or add to it'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "grep" -d 'Search the contents of files for a pattern'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "glob" -d 'Find files by name'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "ls" -d 'List what folders hold'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "bash" -d 'Run a shell command, confined to the workspace'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "mkdir" -d 'Create an empty folder, with the folders on the way to it'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "delete" -d 'Delete files and folders, which can be restored'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "restore" -d 'Bring back what was deleted'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "move" -d 'Move or rename a file or folder'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "undo" -d 'Take back changes that this session made, the newest first'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "redo" -d 'Do again what undo took back, the oldest change first'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "rewind" -d 'Take a session back to one of its snapshots: undo every change that it made since'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "log" -d 'List the snapshots: what was changed, when, by which session and tool'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "diff" -d 'Show what changed between two snapshots, in one of them, or in this session'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "review" -d 'Show what a session did: each change with its diff, what was refused, and what it only read'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "blame" -d 'Show which session, call and snapshot each line of a file came from'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "squash" -d 'Commit what a session changed, as one commit by the developer on a branch of their own'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "watch" -d 'Follow the calls that change something or are refused, as they land'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "snapshot" -d 'Commit whatever changed in the work tree to the snapshot branch'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "audit" -d 'Show the audit log, the newest first, or check that nobody has altered it'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "session" -d 'Tell what this session has seen and changed, or let it forget'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "trash" -d 'List what was deleted, or remove it for good'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "gc" -d 'Free the space of old backups, history and trash'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "stats" -d 'Show how often each tool changed something or was refused, how long it took, and by whom'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "doctor" -d 'Check the workspace, its state, the snapshots and the machine, and say what to repair'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "sandbox" -d 'Give a workspace a name, which every tool takes as --sandbox'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "config" -d 'Show every setting of the policy and where its value came from'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "init" -d 'Set up a client to use lbx over MCP in this workspace'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "apply_patch" -d 'Apply a patch as Codex models call it'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "schema" -d 'Show the JSON Schema of a tool\'s request and answer, or of every tool\'s'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "batch" -d 'Carry out many requests, one JSON object a line on stdin'
complete -c lbx -n "__fish_lbx_needs_command" -f -a "mcp" -d 'Serve the tools over MCP on stdin and stdout'
complete -c lbx -n "__fish_lbx_using_subcommand read" -l offset -d 'Lines to skip; -20 for the last 20' -r
complete -c lbx -n "__fish_lbx_using_subcommand read" -l limit -d 'Lines to show at most; 0 for all' -r
complete -c lbx -n "__fish_lbx_using_subcommand read" -l start-line -d 'First line, from 1 (or from the end if negative); instead of offset' -r
complete -c lbx -n "__fish_lbx_using_subcommand read" -l end-line -d 'Last line, -1 for the file\'s last; instead of limit' -r
complete -c lbx -n "__fish_lbx_using_subcommand read" -l ranges -d 'Several ranges of lines: 10-20, 50-, -20 for the last 20' -r
complete -c lbx -n "__fish_lbx_using_subcommand read" -l around-line -d 'Show the block round this line, by indentation' -r
complete -c lbx -n "__fish_lbx_using_subcommand read" -l column -d 'Byte of the first line, or of the cell, to begin at, from 1, as `next_column` says' -r
complete -c lbx -n "__fish_lbx_using_subcommand read" -l cell -d 'Show a notebook\'s cell, from 1, and its outputs in short; 0 for all cells' -r
complete -c lbx -n "__fish_lbx_using_subcommand read" -l if-sha256 -d 'Answer `unchanged` and no content where the file still has this sha256' -r
complete -c lbx -n "__fish_lbx_using_subcommand read" -l binary -d 'How to show a file that is no text; without it such a file is refused' -r -f -a "base64\t'All of it, encoded as base64, with its MIME type; MCP clients get an image as such'"
complete -c lbx -n "__fish_lbx_using_subcommand read" -l max-bytes -d 'Bytes of content in the answer; 0 for no bound' -r
complete -c lbx -n "__fish_lbx_using_subcommand read" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand read" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand read" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand read" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand read" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand read" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand read" -s n -l line-numbers -d 'Put the line\'s number and a tab before each line'
complete -c lbx -n "__fish_lbx_using_subcommand read" -l show-whitespace -d 'Make blanks at line ends, tabs, CR and characters that look like others visible'
complete -c lbx -n "__fish_lbx_using_subcommand read" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand read" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand read" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand read" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand read" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand read" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand write" -l line-ending -d 'Store the line endings as given, or turn them into those of the file that is replaced' -r -f -a "as_is\t'Stored as given'
keep\t'Turned into those of the file that is replaced, where these are uniform'"
complete -c lbx -n "__fish_lbx_using_subcommand write" -l expected-sha256 -d 'SHA-256 of the file\'s bytes as last seen, in place of a read' -r
complete -c lbx -n "__fish_lbx_using_subcommand write" -l mode -d 'Permission bits, octal such as 0755' -r
complete -c lbx -n "__fish_lbx_using_subcommand write" -l why -d 'Why, for whoever reviews it' -r
complete -c lbx -n "__fish_lbx_using_subcommand write" -l max-bytes -d 'Bytes of the diff of a file; 0 for no bound' -r
complete -c lbx -n "__fish_lbx_using_subcommand write" -l content -d 'All of the file\'s new content. Also on stdin, or @FILE for the text of a file (@@ for a plain @)' -r
complete -c lbx -n "__fish_lbx_using_subcommand write" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand write" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand write" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand write" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand write" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand write" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand write" -l create-only -d 'Refuse where the file exists already'
complete -c lbx -n "__fish_lbx_using_subcommand write" -l allow-omission -d 'Accept content with a line that only says that something is left out'
complete -c lbx -n "__fish_lbx_using_subcommand write" -l dry-run -d 'Only answer what it would do'
complete -c lbx -n "__fish_lbx_using_subcommand write" -l diff -d 'Answer with the diff'
complete -c lbx -n "__fish_lbx_using_subcommand write" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand write" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand write" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand write" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand write" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand write" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l old-string -d 'Text to find, exactly as it stands in the file' -r
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l new-string -d 'Text to put in its place; may be empty' -r
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l expected-replacements -d 'Replace every place, and refuse where there are not just as many' -r
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l occurrence -d 'Replace the place of this number alone, from 1' -r
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l start-line -d 'First line to look at, from 1' -r
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l end-line -d 'Last line to look at' -r
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l range-sha256 -d 'SHA-256 of the bytes of these lines, as read reports it; without `old_string`, `new_string` replaces them' -r
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l match -d 'How `old_string` may match; exact unless the policy says otherwise' -r -f -a "exact\t'Byte for byte, line endings aside'
flexible\t'Also where blanks at line ends, indentation, typographic characters, copied line numbers, escapes or blank lines differ, if that leaves one place alone'"
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l sketch -d 'The new text, with a line such as `// ... existing code ...` for all that stays between two parts; instead of `old_string`; - takes it from stdin' -r
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l expected-sha256 -d 'SHA-256 of the file\'s bytes as last seen, in place of a read' -r
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l why -d 'Why, for whoever reviews it' -r
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l max-bytes -d 'Bytes of the diff of a file; 0 for no bound' -r
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l blocks -d 'SEARCH/REPLACE blocks, from stdin; also a sketch, or the new lines of a range' -r
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l word -d 'Replace whole words only'
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l replace-all -d 'Replace every place instead of the only one'
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l allow-omission -d 'Accept new text with a line that only says that something is left out'
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l rebase -d 'Where the file has changed since it was read, but not in the edited lines, edit it all the same'
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l dry-run -d 'Only answer what it would do'
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l diff -d 'Answer with the diff'
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand edit" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand edit" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand edit" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand edit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand patch" -l path -d 'The one file meant, where the patch names none or several' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand patch" -s p -l strip -d 'Leading folders to remove from the patch\'s paths; a/ and b/ are removed by themselves' -r
complete -c lbx -n "__fish_lbx_using_subcommand patch" -l expected-sha256-by-path -d 'SHA-256 of files as last seen, by path; empty where there must be no file: PATH=HEX, separated by commas, or a JSON object' -r
complete -c lbx -n "__fish_lbx_using_subcommand patch" -l fuzz -d 'Context lines at either end of a hunk that may be ignored' -r
complete -c lbx -n "__fish_lbx_using_subcommand patch" -l why -d 'Why, for whoever reviews it' -r
complete -c lbx -n "__fish_lbx_using_subcommand patch" -l max-bytes -d 'Bytes of the diff of a file; 0 for no bound' -r
complete -c lbx -n "__fish_lbx_using_subcommand patch" -l patch -d 'The patch. Also on stdin, or @FILE for the text of a file (@@ for a plain @)' -r
complete -c lbx -n "__fish_lbx_using_subcommand patch" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand patch" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand patch" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand patch" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand patch" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand patch" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand patch" -l strict -d 'Take line numbers, counts and white space at their word'
complete -c lbx -n "__fish_lbx_using_subcommand patch" -s R -l reverse -d 'Undo the patch instead'
complete -c lbx -n "__fish_lbx_using_subcommand patch" -l dry-run -d 'Only answer what it would do'
complete -c lbx -n "__fish_lbx_using_subcommand patch" -l diff -d 'Answer with the diff'
complete -c lbx -n "__fish_lbx_using_subcommand patch" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand patch" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand patch" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand patch" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand patch" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand patch" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand append" -l expected-sha256 -d 'Refuse where the SHA-256 of the file\'s bytes is another' -r
complete -c lbx -n "__fish_lbx_using_subcommand append" -l why -d 'Why, for whoever reviews it' -r
complete -c lbx -n "__fish_lbx_using_subcommand append" -l max-bytes -d 'Bytes of the diff of a file; 0 for no bound' -r
complete -c lbx -n "__fish_lbx_using_subcommand append" -l content -d 'Text to add. Also on stdin, or @FILE for the text of a file (@@ for a plain @)' -r
complete -c lbx -n "__fish_lbx_using_subcommand append" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand append" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand append" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand append" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand append" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand append" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand append" -l dry-run -d 'Only answer what it would do'
complete -c lbx -n "__fish_lbx_using_subcommand append" -l diff -d 'Answer with the diff'
complete -c lbx -n "__fish_lbx_using_subcommand append" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand append" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand append" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand append" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand append" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand append" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand prepend" -l expected-sha256 -d 'Refuse where the SHA-256 of the file\'s bytes is another' -r
complete -c lbx -n "__fish_lbx_using_subcommand prepend" -l why -d 'Why, for whoever reviews it' -r
complete -c lbx -n "__fish_lbx_using_subcommand prepend" -l max-bytes -d 'Bytes of the diff of a file; 0 for no bound' -r
complete -c lbx -n "__fish_lbx_using_subcommand prepend" -l content -d 'Text to add. Also on stdin, or @FILE for the text of a file (@@ for a plain @)' -r
complete -c lbx -n "__fish_lbx_using_subcommand prepend" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand prepend" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand prepend" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand prepend" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand prepend" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand prepend" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand prepend" -l dry-run -d 'Only answer what it would do'
complete -c lbx -n "__fish_lbx_using_subcommand prepend" -l diff -d 'Answer with the diff'
complete -c lbx -n "__fish_lbx_using_subcommand prepend" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand prepend" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand prepend" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand prepend" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand prepend" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand prepend" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand insert" -l expected-sha256 -d 'SHA-256 of the file\'s bytes as last seen, in place of a read' -r
complete -c lbx -n "__fish_lbx_using_subcommand insert" -l why -d 'Why, for whoever reviews it' -r
complete -c lbx -n "__fish_lbx_using_subcommand insert" -l max-bytes -d 'Bytes of the diff of a file; 0 for no bound' -r
complete -c lbx -n "__fish_lbx_using_subcommand insert" -l content -d 'Lines to insert. Also on stdin, or @FILE for the text of a file (@@ for a plain @)' -r
complete -c lbx -n "__fish_lbx_using_subcommand insert" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand insert" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand insert" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand insert" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand insert" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand insert" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand insert" -l dry-run -d 'Only answer what it would do'
complete -c lbx -n "__fish_lbx_using_subcommand insert" -l diff -d 'Answer with the diff'
complete -c lbx -n "__fish_lbx_using_subcommand insert" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand insert" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand insert" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand insert" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand insert" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand insert" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand section" -l include-subsections -d 'Whether the sections below it belong to it; false leaves them alone' -r -f -a "true\t''
false\t''"
complete -c lbx -n "__fish_lbx_using_subcommand section" -l level -d 'Level of the header, from 1 to 6; tells headers apart, and is that of a new one' -r
complete -c lbx -n "__fish_lbx_using_subcommand section" -l occurrence -d 'Which of several such headers is meant, from 1' -r
complete -c lbx -n "__fish_lbx_using_subcommand section" -l expected-sha256 -d 'Refuse where the SHA-256 of the file\'s bytes is another' -r
complete -c lbx -n "__fish_lbx_using_subcommand section" -l why -d 'Why, for whoever reviews it' -r
complete -c lbx -n "__fish_lbx_using_subcommand section" -l max-bytes -d 'Bytes of the diff of a file; 0 for no bound' -r
complete -c lbx -n "__fish_lbx_using_subcommand section" -l content -d 'Its new text, without the header. Also on stdin, or @FILE for the text of a file (@@ for a plain @)' -r
complete -c lbx -n "__fish_lbx_using_subcommand section" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand section" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand section" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand section" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand section" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand section" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand section" -l append -d 'Add the text at the end of the section instead'
complete -c lbx -n "__fish_lbx_using_subcommand section" -l create -d 'Add the section where it is missing: at the end, or under the path\'s parent'
complete -c lbx -n "__fish_lbx_using_subcommand section" -l allow-omission -d 'Accept a text with a line that only says that something is left out'
complete -c lbx -n "__fish_lbx_using_subcommand section" -l dry-run -d 'Only answer what it would do'
complete -c lbx -n "__fish_lbx_using_subcommand section" -l diff -d 'Answer with the diff'
complete -c lbx -n "__fish_lbx_using_subcommand section" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand section" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand section" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand section" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand section" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand section" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s g -l include -d 'Only files that match one of these globs; !GLOB excludes' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l exclude -d 'No files that match one of these globs' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s t -l type -d 'Only files of these types of ripgrep\'s, such as rust, py, ts' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s T -l type-not -d 'No files of these types' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s B -l before -d 'Lines to show before each match' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s A -l after -d 'Lines to show after each match' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s C -l context -d 'Lines to show before and after each match' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l output-mode -d 'Matching lines, paths of files with matches, or a count of matching lines (or of matches) in each file' -r -f -a "content\t'Matching lines'
files\t'Paths of files with matches'
count\t'Matching lines of each file'
count_matches\t'Matches in each file'"
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l limit -d 'Matches to show at most, or files, or counts, 250 by default; 0 for all' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l offset -d 'Matches, files or counts to pass over' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s m -l max-count -d 'Lines that match in one file, after which it is left' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s d -l depth -d 'Levels of folders to search: 1 is the folder alone' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s M -l max-columns -d 'Bytes of a line to show at most, round the match, 500 by default; 0 for all' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l max-bytes -d 'Bytes of payload to show at most, 24576 by default; 0 for all' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l sort -d 'Order of the files: path, or mtime with the newest first' -r -f -a "path\t'By path, component by component'
mtime\t'By time of change, the newest first'"
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l timeout-ms -d 'Milliseconds that the search may take, 30000 by default; 0 for no limit' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s e -l regexp -d 'A further pattern; any of them may match' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s j -l threads -d 'Accepted and without effect' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l color -d 'Accepted and without effect' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s F -l literal -d 'Take the pattern as plain text'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s i -l ignore-case -d 'Upper and lower case alike'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s S -l smart-case -d 'Upper and lower case alike, unless the pattern has an upper-case letter'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s w -l word -d 'Between word boundaries only'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s x -l whole-line -d 'Whole lines only'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s U -l multiline -d 'Let a match go across lines'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s v -l invert -d 'Lines that do not match'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s o -l only-matching -d 'Each match by itself instead of its line'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s . -l hidden -d 'Hidden files too'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l no-ignore -d 'Files that git ignores too'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s a -l binary -d 'Files with NUL bytes too, as if they were text'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l total -d 'Count all matches, those behind the last one shown too'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l group -d 'Name each file once, with its matches in a list'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l mark -d 'Answer each file\'s sha256 and count the lines shown as read, so that edit may follow'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s n -l line-number -d 'Accepted and without effect: line numbers are always there'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s l -l files-with-matches -d 'Short for `--output-mode files`'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s c -l count -d 'Short for `--output-mode count`'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l count-matches -d 'Short for `--output-mode count_matches`'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s u -l unrestricted -d 'Once for --no-ignore, twice for --hidden too, three times for --binary too'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s q -l quiet -d 'Say only by the exit status whether anything matched: 1 where nothing did'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand grep" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand glob" -l exclude -d 'Leave out what matches one of these globs' -r
complete -c lbx -n "__fish_lbx_using_subcommand glob" -l sort -d 'Order; mtime shows the newest first' -r -f -a "path\t'By path, component by component'
mtime\t'By time of change, the newest first'"
complete -c lbx -n "__fish_lbx_using_subcommand glob" -l type -d 'What to find; files and symlinks by default' -r -f -a "file\t'Regular files'
dir\t'Folders'
symlink\t'Symlinks, whatever they lead to'"
complete -c lbx -n "__fish_lbx_using_subcommand glob" -l limit -d 'Paths to show at most, 1000 by default; 0 for all' -r
complete -c lbx -n "__fish_lbx_using_subcommand glob" -l offset -d 'Paths to pass over' -r
complete -c lbx -n "__fish_lbx_using_subcommand glob" -l max-bytes -d 'Bytes of payload to show at most, 24576 by default; 0 for all' -r
complete -c lbx -n "__fish_lbx_using_subcommand glob" -l timeout-ms -d 'Milliseconds that the search may take, 30000 by default; 0 for no limit' -r
complete -c lbx -n "__fish_lbx_using_subcommand glob" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand glob" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand glob" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand glob" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand glob" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand glob" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand glob" -s i -l ignore-case -d 'Upper and lower case alike'
complete -c lbx -n "__fish_lbx_using_subcommand glob" -l hidden -d 'Hidden files too'
complete -c lbx -n "__fish_lbx_using_subcommand glob" -l no-ignore -d 'Files that git ignores too'
complete -c lbx -n "__fish_lbx_using_subcommand glob" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand glob" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand glob" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand glob" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand glob" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand glob" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand ls" -l depth -d 'Levels to list: 1 is the folder alone' -r
complete -c lbx -n "__fish_lbx_using_subcommand ls" -l sort -d 'Order of the entries: path, mtime with the newest first, or size with the largest first' -r -f -a "path\t'By path, component by component'
mtime\t'By time of change, the newest first'
size\t'By size, the largest first'"
complete -c lbx -n "__fish_lbx_using_subcommand ls" -l limit -d 'Entries to show at most, 1000 by default; 0 for all' -r
complete -c lbx -n "__fish_lbx_using_subcommand ls" -l offset -d 'Entries to pass over' -r
complete -c lbx -n "__fish_lbx_using_subcommand ls" -l max-bytes -d 'Bytes of payload to show at most, 24576 by default; 0 for all' -r
complete -c lbx -n "__fish_lbx_using_subcommand ls" -l timeout-ms -d 'Milliseconds that the listing may take, 30000 by default; 0 for no limit' -r
complete -c lbx -n "__fish_lbx_using_subcommand ls" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand ls" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand ls" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand ls" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand ls" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand ls" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand ls" -s R -l recursive -d 'What lies in the folders inside too'
complete -c lbx -n "__fish_lbx_using_subcommand ls" -s l -l long -d 'Size, mode and time of each entry'
complete -c lbx -n "__fish_lbx_using_subcommand ls" -l sums -d 'How many files each folder holds at every depth, and their bytes'
complete -c lbx -n "__fish_lbx_using_subcommand ls" -s a -l hidden -d 'Hidden files too'
complete -c lbx -n "__fish_lbx_using_subcommand ls" -l no-ignore -d 'Files that git ignores too'
complete -c lbx -n "__fish_lbx_using_subcommand ls" -s 1 -d 'Accepted and without effect: there is one entry a line'
complete -c lbx -n "__fish_lbx_using_subcommand ls" -l help -d 'Print help'
complete -c lbx -n "__fish_lbx_using_subcommand ls" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand ls" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand ls" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand ls" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand ls" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand bash" -s C -l workdir -d 'Folder to run in' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l timeout-ms -d 'Time limit in milliseconds [default: 120000]' -r
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l env -d 'Environment variables: NAME=VALUE, separated by commas, or a JSON object' -r
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l stdin -d 'Text for its standard input' -r
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l network -d 'Use the network, if the policy allows it' -r -f -a "true\t''
false\t''"
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l on-failure -d 'What becomes of the changes of a command that fails; implies transaction [default: keep]' -r -f -a "keep\t'They are applied'
discard\t'They are thrown away'"
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l max-bytes -d 'Bytes of output to show: beginning and end; 0 for no limit' -r
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l job -d 'Show a job\'s state and its output from offset; with `timeout_ms`, wait so long for its end' -r
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l offset -d 'Byte of the job\'s output to read on from; negative: from the end' -r
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l why -d 'Reason, recorded in the snapshot' -r
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand bash" -s c -d '`lbx bash -c COMMAND`, as it is typed for bash'
complete -c lbx -n "__fish_lbx_using_subcommand bash" -s l -d '`lbx bash -lc COMMAND`, likewise: no login shell is started'
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l transaction -d 'Apply what the command changed as one change once it has ended, files that git ignores included: undo takes all of it back. Fails, applying nothing, where others changed one of the files meanwhile. Not for servers, locks shared with other programs, or files of many GB'
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l dry-run -d 'Run the command, list what it changes, and change nothing; implies transaction'
complete -c lbx -n "__fish_lbx_using_subcommand bash" -s b -l background -d 'Start the command as a job and return at once; look at it with job'
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l stop -d 'End the job'
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l list -d 'List the jobs of this session'
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l backends -d 'List the ways to confine a command, and why one does not work here'
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand bash" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand bash" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand bash" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand bash" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand mkdir" -l why -d 'Why, for whoever reviews it' -r
complete -c lbx -n "__fish_lbx_using_subcommand mkdir" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand mkdir" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand mkdir" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand mkdir" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand mkdir" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand mkdir" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand mkdir" -l dry-run -d 'Only answer what it would do'
complete -c lbx -n "__fish_lbx_using_subcommand mkdir" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand mkdir" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand mkdir" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand mkdir" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand mkdir" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand mkdir" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand delete" -l expected-sha256 -d 'Fail unless this is the SHA-256 of the file\'s bytes' -r
complete -c lbx -n "__fish_lbx_using_subcommand delete" -l why -d 'Why, for whoever reviews it' -r
complete -c lbx -n "__fish_lbx_using_subcommand delete" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand delete" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand delete" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand delete" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand delete" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand delete" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand delete" -s r -l recursive -d 'Delete a folder with all that it holds'
complete -c lbx -n "__fish_lbx_using_subcommand delete" -l dry-run -d 'Only answer what it would do'
complete -c lbx -n "__fish_lbx_using_subcommand delete" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand delete" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand delete" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand delete" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand delete" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand delete" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand restore" -l trash-id -d 'Name in the trash, instead of the path' -r
complete -c lbx -n "__fish_lbx_using_subcommand restore" -l to -d 'Where to put it, if not where it was' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand restore" -l why -d 'Why, for whoever reviews it' -r
complete -c lbx -n "__fish_lbx_using_subcommand restore" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand restore" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand restore" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand restore" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand restore" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand restore" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand restore" -l dry-run -d 'Only answer what it would do'
complete -c lbx -n "__fish_lbx_using_subcommand restore" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand restore" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand restore" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand restore" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand restore" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand restore" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand move" -l expected-sha256 -d 'Fail unless this is the SHA-256 of the file\'s bytes' -r
complete -c lbx -n "__fish_lbx_using_subcommand move" -l why -d 'Why, for whoever reviews it' -r
complete -c lbx -n "__fish_lbx_using_subcommand move" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand move" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand move" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand move" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand move" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand move" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand move" -l dry-run -d 'Only answer what it would do'
complete -c lbx -n "__fish_lbx_using_subcommand move" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand move" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand move" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand move" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand move" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand move" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand undo" -l steps -d 'Number of changes' -r
complete -c lbx -n "__fish_lbx_using_subcommand undo" -l why -d 'Why, for whoever reviews it' -r
complete -c lbx -n "__fish_lbx_using_subcommand undo" -l seq -d 'Take back only the change of this number; `log` and `review` show the numbers' -r
complete -c lbx -n "__fish_lbx_using_subcommand undo" -l hunk -d 'With seq, take back only this hunk of the file, as the diff of the change numbers them from 1' -r
complete -c lbx -n "__fish_lbx_using_subcommand undo" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand undo" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand undo" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand undo" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand undo" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand undo" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand undo" -l merge -d 'Merge if a file has changed since'
complete -c lbx -n "__fish_lbx_using_subcommand undo" -l dry-run -d 'Only answer what it would do'
complete -c lbx -n "__fish_lbx_using_subcommand undo" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand undo" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand undo" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand undo" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand undo" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand undo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand redo" -l steps -d 'Number of changes' -r
complete -c lbx -n "__fish_lbx_using_subcommand redo" -l why -d 'Why, for whoever reviews it' -r
complete -c lbx -n "__fish_lbx_using_subcommand redo" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand redo" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand redo" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand redo" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand redo" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand redo" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand redo" -l merge -d 'Merge if a file has changed since'
complete -c lbx -n "__fish_lbx_using_subcommand redo" -l dry-run -d 'Only answer what it would do'
complete -c lbx -n "__fish_lbx_using_subcommand redo" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand redo" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand redo" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand redo" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand redo" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand redo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand rewind" -l why -d 'Why, for whoever reviews it' -r
complete -c lbx -n "__fish_lbx_using_subcommand rewind" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand rewind" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand rewind" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand rewind" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand rewind" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand rewind" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand rewind" -s y -l yes -d 'Do it, instead of only showing what it would undo'
complete -c lbx -n "__fish_lbx_using_subcommand rewind" -l merge -d 'Merge where a file has changed since'
complete -c lbx -n "__fish_lbx_using_subcommand rewind" -l dry-run -d 'Only answer what it would do'
complete -c lbx -n "__fish_lbx_using_subcommand rewind" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand rewind" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand rewind" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand rewind" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand rewind" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand rewind" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand log" -s n -l limit -d 'Snapshots to list at most; 0 for all [default: 20]' -r
complete -c lbx -n "__fish_lbx_using_subcommand log" -l offset -d 'Snapshots to pass over first' -r
complete -c lbx -n "__fish_lbx_using_subcommand log" -l since -d 'Only snapshots after this: a snapshot\'s id, a time (RFC 3339), or how long ago (2h, 30m, 1d)' -r
complete -c lbx -n "__fish_lbx_using_subcommand log" -l grep -d 'Only snapshots whose subject or reason this regular expression matches' -r
complete -c lbx -n "__fish_lbx_using_subcommand log" -l max-bytes -d 'Bytes of the answer; 0 for no bound' -r
complete -c lbx -n "__fish_lbx_using_subcommand log" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand log" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand log" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand log" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand log" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand log" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand log" -l stat -d 'List the files of each snapshot, with their lines'
complete -c lbx -n "__fish_lbx_using_subcommand log" -l graph -d 'In the text, draw a column for each session'
complete -c lbx -n "__fish_lbx_using_subcommand log" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand log" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand log" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand log" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand log" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand log" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand diff" -l from -d 'The earlier snapshot; without it, the one before `to`' -r
complete -c lbx -n "__fish_lbx_using_subcommand diff" -l to -d 'The later snapshot; without it, the newest' -r
complete -c lbx -n "__fish_lbx_using_subcommand diff" -l of -d 'One snapshot, beside the one before it: what one call changed' -r
complete -c lbx -n "__fish_lbx_using_subcommand diff" -l offset -d 'Lines of the diff to pass over first, or files with `stat`' -r
complete -c lbx -n "__fish_lbx_using_subcommand diff" -l max-bytes -d 'Bytes of the diff; 0 for no bound' -r
complete -c lbx -n "__fish_lbx_using_subcommand diff" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand diff" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand diff" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand diff" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand diff" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand diff" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand diff" -l binary -d 'Write the content of binary files too, so that git apply makes them; else only that they differ'
complete -c lbx -n "__fish_lbx_using_subcommand diff" -l stat -d 'Only how much changed in each file'
complete -c lbx -n "__fish_lbx_using_subcommand diff" -l by-session -d 'What each session changed, one after the other; so at a terminal, where nothing else is asked for'
complete -c lbx -n "__fish_lbx_using_subcommand diff" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand diff" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand diff" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand diff" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand diff" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand diff" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand review" -l html -d 'Write the whole story to this file as an HTML page' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand review" -l offset -d 'Changes to skip first' -r
complete -c lbx -n "__fish_lbx_using_subcommand review" -l max-bytes -d 'Bytes of the answer; 0 for no bound' -r
complete -c lbx -n "__fish_lbx_using_subcommand review" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand review" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand review" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand review" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand review" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand review" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand review" -l stat -d 'Leave the diffs out'
complete -c lbx -n "__fish_lbx_using_subcommand review" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand review" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand review" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand review" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand review" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand review" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand blame" -l start-line -d 'First line, from 1' -r
complete -c lbx -n "__fish_lbx_using_subcommand blame" -l end-line -d 'Last line' -r
complete -c lbx -n "__fish_lbx_using_subcommand blame" -l max-bytes -d 'Bytes of the answer; 0 for no bound' -r
complete -c lbx -n "__fish_lbx_using_subcommand blame" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand blame" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand blame" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand blame" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand blame" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand blame" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand blame" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand blame" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand blame" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand blame" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand blame" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand blame" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand squash" -s m -l message -d 'Commit message; its first line is the subject' -r
complete -c lbx -n "__fish_lbx_using_subcommand squash" -l onto -d 'Branch to commit on [default: lbx/SESSION]' -r
complete -c lbx -n "__fish_lbx_using_subcommand squash" -l co-author -d 'Add a Co-authored-by line' -r
complete -c lbx -n "__fish_lbx_using_subcommand squash" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand squash" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand squash" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand squash" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand squash" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand squash" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand squash" -l per-file -d 'Make one commit a file'
complete -c lbx -n "__fish_lbx_using_subcommand squash" -l keep-history -d 'Keep each change as a commit, and join them to the branch by a merge commit with the message'
complete -c lbx -n "__fish_lbx_using_subcommand squash" -l dry-run -d 'Show what would be committed without committing anything'
complete -c lbx -n "__fish_lbx_using_subcommand squash" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand squash" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand squash" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand squash" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand squash" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand squash" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand watch" -l after -d 'Only calls after this cursor, which an earlier answer named; without it, those from now on' -r
complete -c lbx -n "__fish_lbx_using_subcommand watch" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand watch" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand watch" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand watch" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand watch" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand watch" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand watch" -l all -d 'Begin with the oldest call that the log has'
complete -c lbx -n "__fish_lbx_using_subcommand watch" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand watch" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand watch" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand watch" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand watch" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand watch" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand snapshot" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand snapshot" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand snapshot" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand snapshot" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand snapshot" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand snapshot" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand snapshot" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand snapshot" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand snapshot" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand snapshot" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand snapshot" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand snapshot" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand audit" -l limit -d 'Records to show at most; 0 for all' -r
complete -c lbx -n "__fish_lbx_using_subcommand audit" -l offset -d 'Records to pass over, the newest first' -r
complete -c lbx -n "__fish_lbx_using_subcommand audit" -l max-bytes -d 'Bytes of records in the answer; 0 for no bound' -r
complete -c lbx -n "__fish_lbx_using_subcommand audit" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand audit" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand audit" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand audit" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand audit" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand audit" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand audit" -l verify -d 'Check the chain of all records'
complete -c lbx -n "__fish_lbx_using_subcommand audit" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand audit" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand audit" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand audit" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand audit" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand audit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand session" -l offset -d 'Entries to pass over, as `next_offset` says' -r
complete -c lbx -n "__fish_lbx_using_subcommand session" -l max-bytes -d 'Bytes of the answer\'s lists; 0 for no bound' -r
complete -c lbx -n "__fish_lbx_using_subcommand session" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand session" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand session" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand session" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand session" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand session" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand session" -l dry-run -d 'Answer what would be forgotten, and forget nothing'
complete -c lbx -n "__fish_lbx_using_subcommand session" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand session" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand session" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand session" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand session" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand session" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand trash" -l trash-id -d 'Entry to purge; all of them without it' -r
complete -c lbx -n "__fish_lbx_using_subcommand trash" -l limit -d 'Entries to show at most; 0 for all' -r
complete -c lbx -n "__fish_lbx_using_subcommand trash" -l offset -d 'Entries to skip' -r
complete -c lbx -n "__fish_lbx_using_subcommand trash" -l max-bytes -d 'Bytes of the entries; 0 for no bound' -r
complete -c lbx -n "__fish_lbx_using_subcommand trash" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand trash" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand trash" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand trash" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand trash" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand trash" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand trash" -l dry-run -d 'Only answer what it would do'
complete -c lbx -n "__fish_lbx_using_subcommand trash" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand trash" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand trash" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand trash" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand trash" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand trash" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand gc" -l keep-days -d 'Days for which everything is kept, 30 unless the policy says otherwise' -r
complete -c lbx -n "__fish_lbx_using_subcommand gc" -l keep-bytes -d 'Bytes to keep at most: the oldest goes too, save what is younger than a day; 0 for no bound' -r
complete -c lbx -n "__fish_lbx_using_subcommand gc" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand gc" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand gc" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand gc" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand gc" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand gc" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand gc" -l dry-run -d 'Only answer what it would do'
complete -c lbx -n "__fish_lbx_using_subcommand gc" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand gc" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand gc" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand gc" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand gc" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand gc" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand stats" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand stats" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand stats" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand stats" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand stats" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand stats" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand stats" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand stats" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand stats" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand stats" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand stats" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand stats" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand doctor" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand doctor" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand doctor" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand doctor" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand doctor" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand doctor" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand doctor" -l fix -d 'Make the repairs that can lose nothing'
complete -c lbx -n "__fish_lbx_using_subcommand doctor" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand doctor" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand doctor" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand doctor" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand doctor" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand sandbox" -l root -d 'Workspace root; in a container /src where it is not given' -r
complete -c lbx -n "__fish_lbx_using_subcommand sandbox" -l container -d 'Container that runs, and its engine, such as podman:build' -r
complete -c lbx -n "__fish_lbx_using_subcommand sandbox" -l exec -d 'Command that runs another elsewhere, such as \'kubectl exec -i pod --\' or \'ssh host\'' -r
complete -c lbx -n "__fish_lbx_using_subcommand sandbox" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand sandbox" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand sandbox" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand sandbox" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand sandbox" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand sandbox" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand sandbox" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand sandbox" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand sandbox" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand sandbox" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand sandbox" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand sandbox" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand config" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand config" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand config" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand config" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand config" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand config" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand config" -l explain -d 'Tell of each setting too what it is for, what it takes, and the variable that sets it'
complete -c lbx -n "__fish_lbx_using_subcommand config" -l example -d 'Print a policy file with every setting, explained, as it is by default'
complete -c lbx -n "__fish_lbx_using_subcommand config" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand config" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand config" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand config" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand config" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand config" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand init" -l client -d 'Client: claude-code, codex, gemini, opencode, cursor, vscode, zed or goose' -r
complete -c lbx -n "__fish_lbx_using_subcommand init" -l tools -d 'Serve only these tools: core, read-only, or names separated by commas' -r
complete -c lbx -n "__fish_lbx_using_subcommand init" -l why -d 'Why, for whoever reviews it' -r
complete -c lbx -n "__fish_lbx_using_subcommand init" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand init" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand init" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand init" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand init" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand init" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand init" -l remove -d 'Remove what init wrote'
complete -c lbx -n "__fish_lbx_using_subcommand init" -l dry-run -d 'Only answer what it would do'
complete -c lbx -n "__fish_lbx_using_subcommand init" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand init" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand init" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand init" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand init" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand init" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand apply_patch" -l patch -d 'The patch, from stdin' -r
complete -c lbx -n "__fish_lbx_using_subcommand apply_patch" -l why -d 'Why, for whoever reviews it' -r
complete -c lbx -n "__fish_lbx_using_subcommand apply_patch" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand apply_patch" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand apply_patch" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand apply_patch" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand apply_patch" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand apply_patch" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand apply_patch" -l dry-run -d 'Only answer what it would do'
complete -c lbx -n "__fish_lbx_using_subcommand apply_patch" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand apply_patch" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand apply_patch" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand apply_patch" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand apply_patch" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand apply_patch" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand schema" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand schema" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand schema" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand schema" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand schema" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand schema" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand schema" -l aliases -d 'List the other field names that are accepted, instead of the schemas'
complete -c lbx -n "__fish_lbx_using_subcommand schema" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand schema" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand schema" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand schema" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand schema" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand schema" -s h -l help -d 'Print help'
complete -c lbx -n "__fish_lbx_using_subcommand batch" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand batch" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand batch" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand batch" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand batch" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand batch" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand batch" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand batch" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand batch" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand batch" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand batch" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand batch" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lbx -n "__fish_lbx_using_subcommand mcp" -l results -d 'What a result holds: structured content and the same JSON as text, or the text of --text' -r -f -a "json\t'Structured content, and the same JSON as text'
text\t'The text alone, as --text prints it'"
complete -c lbx -n "__fish_lbx_using_subcommand mcp" -l tools -d 'Tools to serve: all, core, read-only, or names separated by commas [default: all]' -r
complete -c lbx -n "__fish_lbx_using_subcommand mcp" -l workspace -d 'Workspace root [env: `LBX_WORKSPACE`] [default: the nearest folder upwards with .lbx or .git]' -r -F
complete -c lbx -n "__fish_lbx_using_subcommand mcp" -l session -d 'Session, whose reads and changes belong together [env: `LBX_SESSION`, `CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`] [default: default]' -r
complete -c lbx -n "__fish_lbx_using_subcommand mcp" -l sandbox -d 'Named workspace [env: `LBX_SANDBOX`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand mcp" -l dialect -d 'Tools of a model family instead of lbx\'s own: claude, anthropic-editor, anthropic-memory, codex, gemini, opencode, q [env: `LBX_DIALECT`]' -r
complete -c lbx -n "__fish_lbx_using_subcommand mcp" -l set -d 'Setting of the policy for this call, such as gate=warn; `lbx config` lists them; may be given again' -r
complete -c lbx -n "__fish_lbx_using_subcommand mcp" -l json -d 'Whole request as JSON: the text itself, - for stdin, or @FILE' -r
complete -c lbx -n "__fish_lbx_using_subcommand mcp" -l confirm -d 'Show each change to the person at the client, and make it only if they agree (elicitation)'
complete -c lbx -n "__fish_lbx_using_subcommand mcp" -l require-snapshot -d 'Count a change without a snapshot as failed'
complete -c lbx -n "__fish_lbx_using_subcommand mcp" -s t -l text -d 'Print the payload alone; everything else goes to stderr [env: `LBX_OUTPUT=text`]'
complete -c lbx -n "__fish_lbx_using_subcommand mcp" -s 0 -l null -d 'End entries of a list with NUL instead of a newline, in --text'
complete -c lbx -n "__fish_lbx_using_subcommand mcp" -l pretty -d 'Spread the JSON over lines'
complete -c lbx -n "__fish_lbx_using_subcommand mcp" -l exit-status -d 'Let the exit status tell the result too: grep and glob exit 1 where nothing matched, diff where something differs'
complete -c lbx -n "__fish_lbx_using_subcommand mcp" -s h -l help -d 'Print help (see more with \'--help\')'
