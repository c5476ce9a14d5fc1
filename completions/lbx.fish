# Completions of lbx for fish. Written by tests/generated from the command line; do not edit.

# The tool of the command line and its positional words so far, a line each; the tool's is empty before it is
# written.
function __lbx_words
    set -l valued $__lbx_valued
    set -l option
    set -l found
    set -l only_places
    set -l words (commandline -opc)
    for word in $words[2..]
        if test -n "$option"
            set option
        else if test -z "$only_places" -a "$word" = --
            set only_places 1
        else if test -z "$only_places"; and string match -q -- '-?*' $word
            contains -- $word $valued; and set option $word
        else
            set -a found $word
            test (count $found) = 1; and set -a valued (__lbx_valued_of $word)
        end
    end
    string join \n -- $found
end

# Whether the place $argv[1] of tool $argv[2] is to be written; place 0 is the tool itself. N+ is N or a later one.
function __lbx_at
    set -l found (__lbx_words)
    set -l place (string replace + '' -- $argv[1])
    set -q argv[2]; and test "$found[1]" != "$argv[2]"; and return 1
    if string match -q '*+' -- $argv[1]
        test (count $found) -ge $place
    else
        test (count $found) -eq $place
    end
end

# Whether the tool is $argv[1].
function __lbx_in
    set -l found (__lbx_words)
    test "$found[1]" = "$argv[1]"
end

# Names that lbx knows in the workspace that the command line names; nothing where it cannot tell.
function __lbx_asked
    set -l words (commandline -opc)
    set -l options
    set -l option
    for word in $words[2..]
        if test -n "$option"
            set -a options $option $word
            set option
        else if contains -- $word --workspace --session --sandbox
            set option $word
        else if string match -qr -- '^--(workspace|session|sandbox)=' $word
            set -a options $word
        end
    end
    set -l program (string replace -r '^~' $HOME -- $words[1])
    switch $argv[1]
        case session
            command $program $options session list --text </dev/null 2>/dev/null | __lbx_described
        case sandbox
            command $program $options sandbox list --text </dev/null 2>/dev/null | __lbx_described
        case snapshot
            command $program $options log --limit 30 --text </dev/null 2>/dev/null | string replace ' ' \t
        case trash
            set -l lines (command $program $options trash list --limit 100 --text </dev/null 2>/dev/null)
            string join \n -- $lines | __lbx_described
            string join \n -- $lines | string split -f 3 \t
    end
end

# Lines whose first field is a name and the others its description.
function __lbx_described
    while read -l line
        set -l fields (string split -m 1 \t -- $line)
        printf '%s\t%s\n' $fields[1] (string replace -a \t ', ' -- "$fields[2]")
    end
end

complete -c lbx -f
set -g __lbx_valued --workspace --session --sandbox --dialect --set --json
function __lbx_valued_of
    switch $argv[1]
        case read
            string split ' ' -- '--offset --limit --start-line --end-line --ranges --around-line --column --cell --if-sha256 --binary --encoding --max-bytes'
        case write
            string split ' ' -- '--line-ending --expected-sha256 --mode --why --encoding --max-bytes --content'
        case edit
            string split ' ' -- '--old-string --new-string --expected-replacements --occurrence --start-line --end-line --range-sha256 --match --edits --sketch --expected-sha256 --why --encoding --max-bytes'
        case patch
            string split ' ' -- '--path -p --strip --expected-sha256-by-path --fuzz --why --encoding --max-bytes --patch'
        case append
            string split ' ' -- '--expected-sha256 --why --encoding --max-bytes --content'
        case prepend
            string split ' ' -- '--expected-sha256 --why --encoding --max-bytes --content'
        case insert
            string split ' ' -- '--expected-sha256 --why --encoding --max-bytes --content'
        case section
            string split ' ' -- '--include-subsections --level --occurrence --expected-sha256 --why --encoding --max-bytes --content'
        case grep
            string split ' ' -- '-g --include --exclude -t --type -T --type-not -B --before -A --after -C --context --output-mode --limit --offset -m --max-count -d --depth -M --max-columns --max-bytes --sort --timeout-ms -e --regexp'
        case glob
            string split ' ' -- '--exclude --sort --type --limit --offset --max-bytes --timeout-ms'
        case ls
            string split ' ' -- '--depth --sort --limit --offset --max-bytes --timeout-ms'
        case bash
            string split ' ' -- '-C --workdir --timeout-ms --env --stdin --network --on-failure --max-bytes --job --offset --layer --why'
        case mkdir
            string split ' ' -- '--why'
        case delete
            string split ' ' -- '--expected-sha256 --max-bytes --why'
        case restore
            string split ' ' -- '--trash-id --to --why'
        case move
            string split ' ' -- '--expected-sha256 --why'
        case undo
            string split ' ' -- '--steps --turn --max-bytes --why --seq --hunk'
        case redo
            string split ' ' -- '--steps --turn --max-bytes --why'
        case rewind
            string split ' ' -- '--turn --max-bytes --why'
        case log
            string split ' ' -- '-n --limit --offset --since --grep --max-bytes'
        case diff
            string split ' ' -- '--from --to --of --offset --max-bytes'
        case review
            string split ' ' -- '--html --offset --max-bytes'
        case blame
            string split ' ' -- '--start-line --end-line --max-bytes'
        case squash
            string split ' ' -- '-m --message --onto --co-author'
        case watch
            string split ' ' -- '--after'
        case audit
            string split ' ' -- '--limit --offset --max-bytes'
        case session
            string split ' ' -- '--offset --max-bytes'
        case trash
            string split ' ' -- '--trash-id --limit --offset --max-bytes'
        case gc
            string split ' ' -- '--keep-days --keep-bytes'
        case stats
            string split ' ' -- '--offset --max-bytes'
        case sandbox
            string split ' ' -- '--root --container --exec'
        case fork
            string split ' ' -- '--from --at --why --offset --max-bytes'
        case merge
            string split ' ' -- '--paths --max-bytes --why'
        case init
            string split ' ' -- '--client --plugin --tools --results --dialect --why'
        case hook
            string split ' ' -- '--event'
        case apply_patch
            string split ' ' -- '--why'
        case mcp
            string split ' ' -- '--results --tools --sandboxes'
    end
end
set -g __lbx_pages read write edit patch append prepend insert section grep glob ls bash mkdir delete restore move undo redo rewind log diff review blame squash watch snapshot audit session trash gc stats doctor sandbox fork merge config init hook apply_patch schema batch mcp agents
set -g __lbx_schemas Bash BashOutput Edit Glob Grep KillShell LS MultiEdit NotebookEdit Read Write append apply_patch audit bash blame config create_directory delete diff directory_tree doctor edit edit_file exec_command execute_bash fork fs_read fs_write gc get_file_info glob grep grep_files grep_search hook init insert list list_allowed_directories list_dir list_directory list_directory_with_sizes log ls memory merge mkdir move move_file patch prepend read read_file read_many_files read_media_file read_multiple_files read_text_file redo replace restore review rewind run_shell_command sandbox schema search_file_content search_files section session shell shell_command snapshot squash stats str_replace_based_edit_tool str_replace_editor trash undo view_image watch write write_file
set -g __lbx_types ada agda aidl alire amake asciidoc asm asp ats avro awk bat batch bazel bitbake boxlang brotli buildstream bzip2 c cabal candid carp cbor ceylon cfml clojure cmake cmd cml coffeescript config container coq cpp creole crystal cs csharp cshtml csproj css csv cuda cython d dart devicetree dhall diff dita docker dockercompose dts dvc ebuild edn elisp elixir elm erb erlang fennel fidl fish flatbuffers fortran fsharp fut gap gdscript gleam gn go gprbuild gradle graphql groovy gzip h haml hare haskell hbs hs html hurl hy idris janet java jinja jl js json jsonl julia jupyter k kconfig kotlin lean less license lilypond lisp llvm lock log lua lz4 lzma m4 make mako man markdown matlab md meson minified mint mk ml mojo motoko msbuild nim nix objc objcpp ocaml org pants pascal pdf perl php pkgbuild po pod postscript prolog proto protobuf ps puppet purs py python qmake qml qrc qui r racket raku rdoc readme reasonml red rescript robot rocq rst ruby rust sass scala scdoc seed7 sh slim smarty sml solidity soy spark spec sql ssa stylus sv svelte svg swift swig systemd taskpaper tcl tex texinfo textile tf thrift toml ts twig txt typescript typoscript typst usd v vala vb vcl verilog vhdl vim vimscript vue webidl wgsl wiki xml xz yacc yaml yang z zig zsh zstd
set -g __lbx_keys gate patch_gate match hard_links durable protect loosen write.in_place guard.gate guard.bash guard.files guard.on_failure guard.timeout_ms guard.titles limits.max_bytes limits.read limits.grep limits.glob limits.ls limits.log limits.audit limits.max_columns limits.search_ms limits.file_bytes limits.lock_seconds snapshot.enabled snapshot.branch snapshot.require snapshot.file_bytes snapshot.exclude snapshot.git_dirs snapshot.scan_seconds snapshot.scan_files snapshot.scan_bytes gc.keep_days gc.keep_bytes bash.backend bash.network bash.writable bash.readable bash.caches bash.hidden bash.env bash.timeout_ms bash.job_ms bash.memory_bytes bash.processes bash.file_bytes bash.ignored_file_bytes bash.ignored_bytes bash.output_bytes
set -g __lbx_settings gate=strict gate=warn gate=off patch_gate=marks patch_gate=context match=exact match=flexible hard_links=refuse hard_links=replace durable=true durable=false protect= loosen= write.in_place= guard.gate=deny guard.gate=warn guard.gate=off guard.bash=wrap guard.bash=record guard.bash=off guard.files= guard.on_failure=closed guard.on_failure=open guard.timeout_ms= guard.titles=true guard.titles=false limits.max_bytes= limits.read= limits.grep= limits.glob= limits.ls= limits.log= limits.audit= limits.max_columns= limits.search_ms= limits.file_bytes= limits.lock_seconds= snapshot.enabled=true snapshot.enabled=false snapshot.branch= snapshot.require=true snapshot.require=false snapshot.file_bytes= snapshot.exclude= snapshot.git_dirs= snapshot.scan_seconds= snapshot.scan_files= snapshot.scan_bytes= gc.keep_days= gc.keep_bytes= bash.backend=auto bash.backend=bubblewrap bash.backend=namespaces bash.backend=auto-landlock bash.backend=landlock bash.backend=none bash.network=deny bash.network=allow bash.network= bash.writable= bash.readable= bash.caches= bash.hidden= bash.env= bash.timeout_ms= bash.job_ms= bash.memory_bytes= bash.processes= bash.file_bytes= bash.ignored_file_bytes= bash.ignored_bytes= bash.output_bytes=
set -g __lbx_served all core read-only
complete -c lbx -l workspace -x -a '(__fish_complete_directories (commandline -ct))' -d 'Workspace root'
complete -c lbx -l session -x -a '(__lbx_asked session)' -d 'Session that groups reads and changes'
complete -c lbx -l sandbox -x -a '(__lbx_asked sandbox)' -d 'Named workspace'
complete -c lbx -l require-snapshot -d 'Fail if a change cannot be recorded as a snapshot'
complete -c lbx -l dialect -x -a 'claude anthropic-editor anthropic-memory codex gemini opencode mcp-filesystem q' -d 'Tools of a model family instead of lbx’s own: claude…'
complete -c lbx -l set -x -a '$__lbx_settings' -d 'Policy setting for this call, such as gate=warn'
complete -c lbx -l json -x -d 'Whole request as JSON: the text itself, - for stdin, or @FILE'
complete -c lbx -s t -l text -d 'Print only the payload'
complete -c lbx -s 0 -l null -d 'End list entries with NUL instead of a newline (with --text)'
complete -c lbx -l pretty -d 'Indent the JSON'
complete -c lbx -l exit-status -d 'Also set the exit status: 1 if grep or glob found nothing, diff a…'
complete -c lbx -s h -l help -d 'Print help'
complete -c lbx -n '__lbx_at 0' -a read -d 'Read a file, and record the lines shown'
complete -c lbx -n '__lbx_in read' -l offset -x -d 'Lines to skip'
complete -c lbx -n '__lbx_in read' -l limit -x -d 'Maximum number of lines'
complete -c lbx -n '__lbx_in read' -l start-line -x -d 'First line, from 1 (or from the end if negative)'
complete -c lbx -n '__lbx_in read' -l end-line -x -d 'Last line, -1 for the file’s last'
complete -c lbx -n '__lbx_in read' -l ranges -x -d 'Several ranges of lines: 10-20, 50-, -20 for the last 20'
complete -c lbx -n '__lbx_in read' -l around-line -x -d 'Show the enclosing block of this line (by indentation)'
complete -c lbx -n '__lbx_in read' -l column -x -d 'Byte of the first line or cell to start at, from 1, as in next_column'
complete -c lbx -n '__lbx_in read' -s n -l line-numbers -d 'Prefix each line with its number and a tab'
complete -c lbx -n '__lbx_in read' -l show-whitespace -d 'Make trailing blanks, tabs, CR and look-alike characters visible'
complete -c lbx -n '__lbx_in read' -l cell -x -d 'Show a cell of a notebook, from 1, with its outputs shortened'
complete -c lbx -n '__lbx_in read' -l if-sha256 -x -d 'Return unchanged without content if the file still has this sha256'
complete -c lbx -n '__lbx_in read' -l binary -x -a 'base64' -d 'How to return a binary file'
complete -c lbx -n '__lbx_in read' -l encoding -x -d 'Encoding of the file if it is not UTF-8, such as windows-1252, euc-jp…'
complete -c lbx -n '__lbx_in read' -l max-bytes -x -d 'Maximum bytes of content'
complete -c lbx -n '__lbx_at 1 read' -F
complete -c lbx -n '__lbx_at 2+ read' -F
complete -c lbx -n '__lbx_at 0' -a write -d 'Create a file or replace its whole content'
complete -c lbx -n '__lbx_in write' -l line-ending -x -a 'as_is keep' -d 'Store line endings as given, or convert them to those of the file'
complete -c lbx -n '__lbx_in write' -l expected-sha256 -x -d 'SHA-256 of the file as last seen'
complete -c lbx -n '__lbx_in write' -l create-only -d 'Fail if the file exists'
complete -c lbx -n '__lbx_in write' -l allow-omission -d 'Allow a line that replaces omitted text, such as '
complete -c lbx -n '__lbx_in write' -l mode -x -d 'Permission bits, octal such as 0755'
complete -c lbx -n '__lbx_in write' -l dry-run -d 'Show what would change without changing anything'
complete -c lbx -n '__lbx_in write' -l why -x -d 'Reason for the change, recorded in the snapshot'
complete -c lbx -n '__lbx_in write' -l encoding -x -d 'Encoding of the file if it is not UTF-8, such as windows-1252, euc-jp…'
complete -c lbx -n '__lbx_in write' -l diff -d 'Include the diff in the response'
complete -c lbx -n '__lbx_in write' -l max-bytes -x -d 'Maximum bytes of diff per file'
complete -c lbx -n '__lbx_in write' -l content -x -d 'New content of the file'
complete -c lbx -n '__lbx_at 1 write' -F
complete -c lbx -n '__lbx_at 0' -a edit -d 'Replace text that occurs exactly once in a file'
complete -c lbx -n '__lbx_in edit' -l old-string -x -d 'Text to find, exactly as in the file'
complete -c lbx -n '__lbx_in edit' -l new-string -x -d 'Replacement text'
complete -c lbx -n '__lbx_in edit' -l word -d 'Replace whole words only'
complete -c lbx -n '__lbx_in edit' -l replace-all -d 'Replace all matches'
complete -c lbx -n '__lbx_in edit' -l expected-replacements -x -d 'Replace all matches'
complete -c lbx -n '__lbx_in edit' -l occurrence -x -d 'Replace only the Nth match, from 1'
complete -c lbx -n '__lbx_in edit' -l start-line -x -d 'First line of the range to search, from 1'
complete -c lbx -n '__lbx_in edit' -l end-line -x -d 'Last line of the range to search'
complete -c lbx -n '__lbx_in edit' -l range-sha256 -x -d 'SHA-256 of the bytes of these lines, 8 digits or more, for lines that…'
complete -c lbx -n '__lbx_in edit' -l match -x -a 'exact flexible' -d 'How old_string may match'
complete -c lbx -n '__lbx_in edit' -l edits -x -d 'Several edits in order, each on the result of the one before, as a…'
complete -c lbx -n '__lbx_in edit' -l sketch -x -d 'The new text, with a line such as // '
complete -c lbx -n '__lbx_in edit' -l allow-omission -d 'Allow a line that replaces omitted text, such as '
complete -c lbx -n '__lbx_in edit' -l expected-sha256 -x -d 'SHA-256 of the file as last seen'
complete -c lbx -n '__lbx_in edit' -l allow-repeat -d 'Allow new lines that repeat the line just before or after the range'
complete -c lbx -n '__lbx_in edit' -l rebase -d 'Apply even if other lines have changed since the read'
complete -c lbx -n '__lbx_in edit' -l dry-run -d 'Show what would change without changing anything'
complete -c lbx -n '__lbx_in edit' -l why -x -d 'Reason for the change, recorded in the snapshot'
complete -c lbx -n '__lbx_in edit' -l encoding -x -d 'Encoding of the file if it is not UTF-8, such as windows-1252, euc-jp…'
complete -c lbx -n '__lbx_in edit' -l diff -d 'Include the diff in the response'
complete -c lbx -n '__lbx_in edit' -l max-bytes -x -d 'Maximum bytes of diff per file'
complete -c lbx -n '__lbx_at 1 edit' -F
complete -c lbx -n '__lbx_at 2+ edit' -F
complete -c lbx -n '__lbx_at 0' -a patch -d 'Apply a patch to several files, all or none'
complete -c lbx -n '__lbx_in patch' -l path -r -F -d 'File to patch, if the patch names none or several'
complete -c lbx -n '__lbx_in patch' -s p -l strip -x -d 'Leading path components to strip'
complete -c lbx -n '__lbx_in patch' -l expected-sha256-by-path -x -d 'SHA-256 of files as last seen, by path'
complete -c lbx -n '__lbx_in patch' -l fuzz -x -d 'Context lines at either end of a hunk that may differ'
complete -c lbx -n '__lbx_in patch' -l strict -d 'Require exact line numbers, counts and whitespace'
complete -c lbx -n '__lbx_in patch' -s R -l reverse -d 'Apply the patch in reverse'
complete -c lbx -n '__lbx_in patch' -l allow-repeat -d 'Allow new lines that repeat the line just before or after those that…'
complete -c lbx -n '__lbx_in patch' -l dry-run -d 'Show what would change without changing anything'
complete -c lbx -n '__lbx_in patch' -l why -x -d 'Reason for the change, recorded in the snapshot'
complete -c lbx -n '__lbx_in patch' -l encoding -x -d 'Encoding of the file if it is not UTF-8, such as windows-1252, euc-jp…'
complete -c lbx -n '__lbx_in patch' -l diff -d 'Include the diff in the response'
complete -c lbx -n '__lbx_in patch' -l max-bytes -x -d 'Maximum bytes of diff per file'
complete -c lbx -n '__lbx_in patch' -l patch -x -d 'The patch'
complete -c lbx -n '__lbx_at 0' -a append -d 'Add text at the end of a file'
complete -c lbx -n '__lbx_in append' -l expected-sha256 -x -d 'Fail unless the SHA-256 of the file is this one'
complete -c lbx -n '__lbx_in append' -l dry-run -d 'Show what would change without changing anything'
complete -c lbx -n '__lbx_in append' -l why -x -d 'Reason for the change, recorded in the snapshot'
complete -c lbx -n '__lbx_in append' -l encoding -x -d 'Encoding of the file if it is not UTF-8, such as windows-1252, euc-jp…'
complete -c lbx -n '__lbx_in append' -l diff -d 'Include the diff in the response'
complete -c lbx -n '__lbx_in append' -l max-bytes -x -d 'Maximum bytes of diff per file'
complete -c lbx -n '__lbx_in append' -l content -x -d 'Text to add'
complete -c lbx -n '__lbx_at 1 append' -F
complete -c lbx -n '__lbx_at 0' -a prepend -d 'Add text at the start of a file'
complete -c lbx -n '__lbx_in prepend' -l expected-sha256 -x -d 'Fail unless the SHA-256 of the file is this one'
complete -c lbx -n '__lbx_in prepend' -l dry-run -d 'Show what would change without changing anything'
complete -c lbx -n '__lbx_in prepend' -l why -x -d 'Reason for the change, recorded in the snapshot'
complete -c lbx -n '__lbx_in prepend' -l encoding -x -d 'Encoding of the file if it is not UTF-8, such as windows-1252, euc-jp…'
complete -c lbx -n '__lbx_in prepend' -l diff -d 'Include the diff in the response'
complete -c lbx -n '__lbx_in prepend' -l max-bytes -x -d 'Maximum bytes of diff per file'
complete -c lbx -n '__lbx_in prepend' -l content -x -d 'Text to add'
complete -c lbx -n '__lbx_at 1 prepend' -F
complete -c lbx -n '__lbx_at 0' -a insert -d 'Insert lines after a line of a file'
complete -c lbx -n '__lbx_in insert' -l expected-sha256 -x -d 'SHA-256 of the file as last seen'
complete -c lbx -n '__lbx_in insert' -l dry-run -d 'Show what would change without changing anything'
complete -c lbx -n '__lbx_in insert' -l why -x -d 'Reason for the change, recorded in the snapshot'
complete -c lbx -n '__lbx_in insert' -l encoding -x -d 'Encoding of the file if it is not UTF-8, such as windows-1252, euc-jp…'
complete -c lbx -n '__lbx_in insert' -l diff -d 'Include the diff in the response'
complete -c lbx -n '__lbx_in insert' -l max-bytes -x -d 'Maximum bytes of diff per file'
complete -c lbx -n '__lbx_in insert' -l content -x -d 'Lines to insert'
complete -c lbx -n '__lbx_at 1 insert' -F
complete -c lbx -n '__lbx_at 0' -a section -d 'Replace a section of a Markdown file, or add to it'
complete -c lbx -n '__lbx_in section' -l append -d 'Add the text at the end of the section instead'
complete -c lbx -n '__lbx_in section' -l include-subsections -x -a 'true false' -d 'Include subsections'
complete -c lbx -n '__lbx_in section' -l create -d 'Create the section if it is missing: at the end, or under the path’s…'
complete -c lbx -n '__lbx_in section' -l level -x -d 'Level of the header, 1 to 6: selects among headers, and is the level…'
complete -c lbx -n '__lbx_in section' -l occurrence -x -d 'Matching header to use, from 1'
complete -c lbx -n '__lbx_in section' -l allow-omission -d 'Allow a line that replaces omitted text, such as '
complete -c lbx -n '__lbx_in section' -l expected-sha256 -x -d 'Fail unless the SHA-256 of the file is this one'
complete -c lbx -n '__lbx_in section' -l dry-run -d 'Show what would change without changing anything'
complete -c lbx -n '__lbx_in section' -l why -x -d 'Reason for the change, recorded in the snapshot'
complete -c lbx -n '__lbx_in section' -l encoding -x -d 'Encoding of the file if it is not UTF-8, such as windows-1252, euc-jp…'
complete -c lbx -n '__lbx_in section' -l diff -d 'Include the diff in the response'
complete -c lbx -n '__lbx_in section' -l max-bytes -x -d 'Maximum bytes of diff per file'
complete -c lbx -n '__lbx_in section' -l content -x -d 'New text of the section, without the header'
complete -c lbx -n '__lbx_at 1 section' -F
complete -c lbx -n '__lbx_at 0' -a grep -d 'Search the contents of files for a pattern'
complete -c lbx -n '__lbx_in grep' -s g -l include -x -d 'Only files that match one of these globs'
complete -c lbx -n '__lbx_in grep' -l exclude -x -d 'Exclude files that match one of these globs'
complete -c lbx -n '__lbx_in grep' -s t -l type -x -a '$__lbx_types' -d 'Only files of these types (ripgrep’s), such as rust, py, ts'
complete -c lbx -n '__lbx_in grep' -s T -l type-not -x -a '$__lbx_types' -d 'Exclude files of these types'
complete -c lbx -n '__lbx_in grep' -s F -l literal -d 'Treat the pattern as a literal string'
complete -c lbx -n '__lbx_in grep' -s i -l ignore-case -d 'Ignore case'
complete -c lbx -n '__lbx_in grep' -s S -l smart-case -d 'Ignore case, unless the pattern has an upper-case letter'
complete -c lbx -n '__lbx_in grep' -s w -l word -d 'Match whole words only'
complete -c lbx -n '__lbx_in grep' -s x -l whole-line -d 'Match whole lines only'
complete -c lbx -n '__lbx_in grep' -s U -l multiline -d 'Let matches span lines'
complete -c lbx -n '__lbx_in grep' -s v -l invert -d 'Show lines that do not match'
complete -c lbx -n '__lbx_in grep' -s o -l only-matching -d 'Show only the matching part of each line'
complete -c lbx -n '__lbx_in grep' -s B -l before -x -d 'Lines to show before each match'
complete -c lbx -n '__lbx_in grep' -s A -l after -x -d 'Lines to show after each match'
complete -c lbx -n '__lbx_in grep' -s C -l context -x -d 'Lines to show before and after each match'
complete -c lbx -n '__lbx_in grep' -l output-mode -x -a 'content files count count_matches files_with_matches' -d 'Matching lines, paths of files with matches, or a count of matching…'
complete -c lbx -n '__lbx_in grep' -l limit -x -d 'Maximum number of matches, files or counts, 250 by default'
complete -c lbx -n '__lbx_in grep' -l offset -x -d 'Matches, files or counts to skip'
complete -c lbx -n '__lbx_in grep' -s m -l max-count -x -d 'Maximum number of matching lines per file'
complete -c lbx -n '__lbx_in grep' -s d -l depth -x -d 'Maximum depth: 1 searches the folder itself only'
complete -c lbx -n '__lbx_in grep' -s . -l hidden -d 'Include hidden files'
complete -c lbx -n '__lbx_in grep' -l no-ignore -d 'Include files that git ignores'
complete -c lbx -n '__lbx_in grep' -s a -l binary -d 'Include binary files (with NUL bytes), searched as text'
complete -c lbx -n '__lbx_in grep' -s M -l max-columns -x -d 'Maximum bytes of a line, around the match, 500 by default'
complete -c lbx -n '__lbx_in grep' -l max-bytes -x -d 'Maximum bytes of payload, 24576 by default'
complete -c lbx -n '__lbx_in grep' -l total -d 'Count all matches, also those after the last one shown'
complete -c lbx -n '__lbx_in grep' -l sort -x -a 'path mtime' -d 'Order of the files: path, or mtime with the newest first'
complete -c lbx -n '__lbx_in grep' -l group -d 'Group matches by file'
complete -c lbx -n '__lbx_in grep' -l mark -d 'Return each file’s sha256 and mark the lines shown as read, so that…'
complete -c lbx -n '__lbx_in grep' -l timeout-ms -x -d 'Time limit in milliseconds, 30000 by default'
complete -c lbx -n '__lbx_in grep' -s e -l regexp -x -d 'Another pattern'
complete -c lbx -n '__lbx_in grep' -s l -l files-with-matches -d 'Short for --output-mode files'
complete -c lbx -n '__lbx_in grep' -s c -l count -d 'Short for --output-mode count'
complete -c lbx -n '__lbx_in grep' -l count-matches -d 'Short for --output-mode count_matches'
complete -c lbx -n '__lbx_in grep' -s u -l unrestricted -d 'Once for --no-ignore, twice to add --hidden, three times to add…'
complete -c lbx -n '__lbx_in grep' -s q -l quiet -d 'Print nothing'
complete -c lbx -n '__lbx_in grep' -l text -d 'Print only the payload'
complete -c lbx -n '__lbx_at 2+ grep' -F
complete -c lbx -n '__lbx_at 0' -a glob -d 'Find files by name'
complete -c lbx -n '__lbx_in glob' -l exclude -x -d 'Exclude paths that match one of these globs'
complete -c lbx -n '__lbx_in glob' -l sort -x -a 'path mtime' -d 'Order'
complete -c lbx -n '__lbx_in glob' -l type -x -a 'file dir symlink' -d 'Types to find'
complete -c lbx -n '__lbx_in glob' -s i -l ignore-case -d 'Ignore case'
complete -c lbx -n '__lbx_in glob' -l hidden -d 'Include hidden files'
complete -c lbx -n '__lbx_in glob' -l no-ignore -d 'Include files that git ignores'
complete -c lbx -n '__lbx_in glob' -l limit -x -d 'Maximum number of paths, 1000 by default'
complete -c lbx -n '__lbx_in glob' -l offset -x -d 'Paths to skip'
complete -c lbx -n '__lbx_in glob' -l max-bytes -x -d 'Maximum bytes of payload, 24576 by default'
complete -c lbx -n '__lbx_in glob' -l timeout-ms -x -d 'Time limit in milliseconds, 30000 by default'
complete -c lbx -n '__lbx_at 2+ glob' -F
complete -c lbx -n '__lbx_at 0' -a ls -d 'List the contents of folders'
complete -c lbx -n '__lbx_in ls' -s R -l recursive -d 'List folders recursively'
complete -c lbx -n '__lbx_in ls' -l depth -x -d 'Maximum depth: 1 lists the folder itself only'
complete -c lbx -n '__lbx_in ls' -l sort -x -a 'path mtime size' -d 'Order of the entries: path, mtime with the newest first, or size with…'
complete -c lbx -n '__lbx_in ls' -s l -l long -d 'Show size, mode and time of each entry'
complete -c lbx -n '__lbx_in ls' -l sums -d 'Show how many files each folder holds at any depth, and their total…'
complete -c lbx -n '__lbx_in ls' -s a -l hidden -d 'Include hidden files'
complete -c lbx -n '__lbx_in ls' -l no-ignore -d 'Include files that git ignores'
complete -c lbx -n '__lbx_in ls' -l limit -x -d 'Maximum number of entries, 1000 by default'
complete -c lbx -n '__lbx_in ls' -l offset -x -d 'Entries to skip'
complete -c lbx -n '__lbx_in ls' -l max-bytes -x -d 'Maximum bytes of payload, 24576 by default'
complete -c lbx -n '__lbx_in ls' -l timeout-ms -x -d 'Time limit in milliseconds, 30000 by default'
complete -c lbx -n '__lbx_in ls' -l help -d 'Print help'
complete -c lbx -n '__lbx_at 1+ ls' -F
complete -c lbx -n '__lbx_at 0' -a bash -d 'Run a shell command, confined to the workspace'
complete -c lbx -n '__lbx_in bash' -s C -l workdir -x -a '(__fish_complete_directories (commandline -ct))' -d 'Working directory of the command'
complete -c lbx -n '__lbx_in bash' -l timeout-ms -x -d 'Time limit in milliseconds'
complete -c lbx -n '__lbx_in bash' -l env -x -d 'Environment variables: NAME=VALUE, separated by commas, or a JSON…'
complete -c lbx -n '__lbx_in bash' -l stdin -x -d 'Text for the command’s standard input'
complete -c lbx -n '__lbx_in bash' -l network -x -a 'true false' -d 'false: without the network that the policy allows'
complete -c lbx -n '__lbx_in bash' -l transaction -d 'Apply all changes of the command or none: fail if others changed one…'
complete -c lbx -n '__lbx_in bash' -l direct -d 'Change the files themselves instead of a layer: for servers and…'
complete -c lbx -n '__lbx_in bash' -l on-failure -x -a 'keep discard' -d 'Fate of the changes of a failed command'
complete -c lbx -n '__lbx_in bash' -l dry-run -d 'Run the command, list what it changes, and change nothing'
complete -c lbx -n '__lbx_in bash' -l max-bytes -x -d 'Maximum bytes of output, split between its start and its end'
complete -c lbx -n '__lbx_in bash' -s b -l background -d 'Start the command as a job and return at once'
complete -c lbx -n '__lbx_in bash' -l job -x -d 'Show a job’s state and its output from offset'
complete -c lbx -n '__lbx_in bash' -l offset -x -d 'Byte of the job’s output to read on from'
complete -c lbx -n '__lbx_in bash' -l stop -d 'End the job'
complete -c lbx -n '__lbx_in bash' -l layer -x -d 'Show the changes in a kept layer: of a command that was killed, or of…'
complete -c lbx -n '__lbx_in bash' -l apply -d 'Apply the layer'
complete -c lbx -n '__lbx_in bash' -l drop -d 'Delete the layer'
complete -c lbx -n '__lbx_in bash' -l list -d 'List the jobs of this session and the kept layers'
complete -c lbx -n '__lbx_in bash' -l backends -d 'List the backends that confine commands, and why one does not work…'
complete -c lbx -n '__lbx_in bash' -l why -x -d 'Reason for the change, recorded in the snapshot'
complete -c lbx -n '__lbx_at 0' -a mkdir -d 'Create an empty folder and its missing parents'
complete -c lbx -n '__lbx_in mkdir' -l dry-run -d 'Show what would change without changing anything'
complete -c lbx -n '__lbx_in mkdir' -l why -x -d 'Reason for the change, recorded in the snapshot'
complete -c lbx -n '__lbx_at 1 mkdir' -F
complete -c lbx -n '__lbx_at 0' -a delete -d 'Delete files and folders, which can be restored'
complete -c lbx -n '__lbx_in delete' -s r -l recursive -d 'Delete folders with their contents'
complete -c lbx -n '__lbx_in delete' -l expected-sha256 -x -d 'Fail unless the SHA-256 of the file is this one'
complete -c lbx -n '__lbx_in delete' -l max-bytes -x -d 'Maximum bytes of the list in the response'
complete -c lbx -n '__lbx_in delete' -l dry-run -d 'Show what would change without changing anything'
complete -c lbx -n '__lbx_in delete' -l why -x -d 'Reason for the change, recorded in the snapshot'
complete -c lbx -n '__lbx_at 1+ delete' -F
complete -c lbx -n '__lbx_at 0' -a restore -d 'Restore deleted files'
complete -c lbx -n '__lbx_in restore' -l trash-id -x -a '(__lbx_asked trash)' -d 'ID in the trash, instead of the path'
complete -c lbx -n '__lbx_in restore' -l to -r -F -d 'Path to restore to, if not the old one'
complete -c lbx -n '__lbx_in restore' -l dry-run -d 'Show what would change without changing anything'
complete -c lbx -n '__lbx_in restore' -l why -x -d 'Reason for the change, recorded in the snapshot'
complete -c lbx -n '__lbx_at 1 restore' -a '(__lbx_asked trash)'
complete -c lbx -n '__lbx_at 0' -a move -d 'Move or rename a file or folder'
complete -c lbx -n '__lbx_in move' -l expected-sha256 -x -d 'Fail unless the SHA-256 of the file is this one'
complete -c lbx -n '__lbx_in move' -l dry-run -d 'Show what would change without changing anything'
complete -c lbx -n '__lbx_in move' -l why -x -d 'Reason for the change, recorded in the snapshot'
complete -c lbx -n '__lbx_at 1 move' -F
complete -c lbx -n '__lbx_at 2 move' -F
complete -c lbx -n '__lbx_at 0' -a undo -d 'Undo changes of this session, the newest first'
complete -c lbx -n '__lbx_in undo' -l steps -x -d 'Number of changes'
complete -c lbx -n '__lbx_in undo' -l merge -d 'Merge if a file has changed since'
complete -c lbx -n '__lbx_in undo' -l turn -x -d 'All changes of one turn: of the last one, or of the one that holds…'
complete -c lbx -n '__lbx_in undo' -l max-bytes -x -d 'Maximum bytes of the list in the response'
complete -c lbx -n '__lbx_in undo' -l dry-run -d 'Show what would change without changing anything'
complete -c lbx -n '__lbx_in undo' -l why -x -d 'Reason for the change, recorded in the snapshot'
complete -c lbx -n '__lbx_in undo' -l seq -x -d 'Undo only the change with this number'
complete -c lbx -n '__lbx_in undo' -l hunk -x -d 'With seq, undo only this hunk of the change’s diff, from 1'
complete -c lbx -n '__lbx_at 1 undo' -F
complete -c lbx -n '__lbx_at 0' -a redo -d 'Redo undone changes, oldest first'
complete -c lbx -n '__lbx_in redo' -l steps -x -d 'Number of changes'
complete -c lbx -n '__lbx_in redo' -l merge -d 'Merge if a file has changed since'
complete -c lbx -n '__lbx_in redo' -l turn -x -d 'All changes of one turn: of the last one, or of the one that holds…'
complete -c lbx -n '__lbx_in redo' -l max-bytes -x -d 'Maximum bytes of the list in the response'
complete -c lbx -n '__lbx_in redo' -l dry-run -d 'Show what would change without changing anything'
complete -c lbx -n '__lbx_in redo' -l why -x -d 'Reason for the change, recorded in the snapshot'
complete -c lbx -n '__lbx_at 1 redo' -F
complete -c lbx -n '__lbx_at 0' -a rewind -d 'Take a session back to one of its snapshots, or to before a turn:…'
complete -c lbx -n '__lbx_in rewind' -l turn -x -d 'Instead: back to before the turn that holds the change with this…'
complete -c lbx -n '__lbx_in rewind' -s y -l yes -d 'Undo the changes instead of only listing them'
complete -c lbx -n '__lbx_in rewind' -l merge -d 'Keep what others have changed in the same files since'
complete -c lbx -n '__lbx_in rewind' -l max-bytes -x -d 'Maximum bytes of the list in the response'
complete -c lbx -n '__lbx_in rewind' -l dry-run -d 'Show what would change without changing anything'
complete -c lbx -n '__lbx_in rewind' -l why -x -d 'Reason for the change, recorded in the snapshot'
complete -c lbx -n '__lbx_at 1 rewind' -a '(__lbx_asked snapshot)'
complete -c lbx -n '__lbx_at 0' -a log -d 'List the snapshots: files, time, session and tool of each change'
complete -c lbx -n '__lbx_in log' -s n -l limit -x -d 'Maximum number of snapshots'
complete -c lbx -n '__lbx_in log' -l offset -x -d 'Snapshots to skip'
complete -c lbx -n '__lbx_in log' -l since -x -d 'Only snapshots after this: a snapshot’s id, a time (RFC 3339), or how…'
complete -c lbx -n '__lbx_in log' -l grep -x -d 'Only snapshots whose subject or reason this regular expression matches'
complete -c lbx -n '__lbx_in log' -l stat -d 'List the files of each snapshot, with lines added and removed'
complete -c lbx -n '__lbx_in log' -l turns -d 'List turns instead of snapshots'
complete -c lbx -n '__lbx_in log' -l graph -d 'Draw a column for each session (with --text)'
complete -c lbx -n '__lbx_in log' -l max-bytes -x -d 'Maximum bytes of the response'
complete -c lbx -n '__lbx_at 1 log' -F
complete -c lbx -n '__lbx_at 0' -a diff -d 'Show what changed between two snapshots, in one of them, or in this…'
complete -c lbx -n '__lbx_in diff' -l from -x -a '(__lbx_asked snapshot)' -d 'Earlier snapshot'
complete -c lbx -n '__lbx_in diff' -l to -x -a '(__lbx_asked snapshot)' -d 'Later snapshot'
complete -c lbx -n '__lbx_in diff' -l of -x -a '(__lbx_asked snapshot)' -d 'One snapshot against the one before it: one call'
complete -c lbx -n '__lbx_in diff' -l binary -d 'Include the content of binary files, for git apply'
complete -c lbx -n '__lbx_in diff' -l stat -d 'Show only line counts for each file'
complete -c lbx -n '__lbx_in diff' -l by-session -d 'Changes of each session in turn'
complete -c lbx -n '__lbx_in diff' -l offset -x -d 'Lines of the diff to skip, or files with stat'
complete -c lbx -n '__lbx_in diff' -l max-bytes -x -d 'Maximum bytes of diff'
complete -c lbx -n '__lbx_at 1 diff' -F
complete -c lbx -n '__lbx_at 2+ diff' -F
complete -c lbx -n '__lbx_at 0' -a review -d 'Show what a session did: each change with its diff, what was refused…'
complete -c lbx -n '__lbx_in review' -l html -r -F -d 'Write the whole story to this file as an HTML page'
complete -c lbx -n '__lbx_in review' -l forks -d 'Compare the forks of this workspace instead'
complete -c lbx -n '__lbx_in review' -l stat -d 'Leave the diffs out'
complete -c lbx -n '__lbx_in review' -l offset -x -d 'Changes to skip'
complete -c lbx -n '__lbx_in review' -l max-bytes -x -d 'Maximum bytes of the response'
complete -c lbx -n '__lbx_at 0' -a blame -d 'Show which session, call, turn and snapshot each line of a file came…'
complete -c lbx -n '__lbx_in blame' -l start-line -x -d 'First line, from 1'
complete -c lbx -n '__lbx_in blame' -l end-line -x -d 'Last line'
complete -c lbx -n '__lbx_in blame' -l max-bytes -x -d 'Maximum bytes of the response'
complete -c lbx -n '__lbx_at 1 blame' -F
complete -c lbx -n '__lbx_at 0' -a squash -d 'Commit the changes of a session, as one commit by the developer on a…'
complete -c lbx -n '__lbx_in squash' -s m -l message -x -d 'Commit message'
complete -c lbx -n '__lbx_in squash' -l onto -x -d 'Branch to commit on'
complete -c lbx -n '__lbx_in squash' -l checked-out -d 'Commit on the branch that is checked out, and update the index for…'
complete -c lbx -n '__lbx_in squash' -l co-author -x -d 'Add a Co-authored-by line'
complete -c lbx -n '__lbx_in squash' -l per-file -d 'Make one commit per file'
complete -c lbx -n '__lbx_in squash' -l keep-history -d 'Keep each change as a commit, and join them to the branch by a merge…'
complete -c lbx -n '__lbx_in squash' -l dry-run -d 'Show what would be committed without committing anything'
complete -c lbx -n '__lbx_at 1+ squash' -F
complete -c lbx -n '__lbx_at 0' -a watch -d 'Follow the calls that change something or are refused, as they happen'
complete -c lbx -n '__lbx_in watch' -l after -x -d 'Only calls after this cursor from an earlier response'
complete -c lbx -n '__lbx_in watch' -l all -d 'Begin with the oldest call that the log has'
complete -c lbx -n '__lbx_at 0' -a snapshot -d 'Commit all changes in the work tree to the snapshot branch'
complete -c lbx -n '__lbx_at 0' -a audit -d 'Show the audit log, newest first, or check that nobody has altered it'
complete -c lbx -n '__lbx_in audit' -l limit -x -d 'Maximum number of records'
complete -c lbx -n '__lbx_in audit' -l offset -x -d 'Records to skip, the newest first'
complete -c lbx -n '__lbx_in audit' -l verify -d 'Check the chain of all records'
complete -c lbx -n '__lbx_in audit' -l max-bytes -x -d 'Maximum bytes of records'
complete -c lbx -n '__lbx_at 1 audit' -F
complete -c lbx -n '__lbx_at 0' -a session -d 'Show what this session has read and changed, or reset it'
complete -c lbx -n '__lbx_in session' -l offset -x -d 'Entries to skip, as next_offset says'
complete -c lbx -n '__lbx_in session' -l max-bytes -x -d 'Maximum bytes of the lists'
complete -c lbx -n '__lbx_in session' -l dry-run -d 'Show what would be forgotten without forgetting it'
complete -c lbx -n '__lbx_at 1 session' -a 'status list forget compact brief end'
complete -c lbx -n '__lbx_at 2+ session' -F
complete -c lbx -n '__lbx_at 0' -a trash -d 'List deleted files, or remove them for good'
complete -c lbx -n '__lbx_in trash' -l trash-id -x -a '(__lbx_asked trash)' -d 'Entry to purge'
complete -c lbx -n '__lbx_in trash' -l limit -x -d 'Maximum number of entries'
complete -c lbx -n '__lbx_in trash' -l offset -x -d 'Entries to skip'
complete -c lbx -n '__lbx_in trash' -l max-bytes -x -d 'Maximum bytes of entries'
complete -c lbx -n '__lbx_in trash' -l dry-run -d 'Show what would change without changing anything'
complete -c lbx -n '__lbx_at 1 trash' -a 'list purge'
complete -c lbx -n '__lbx_at 0' -a gc -d 'Free the space of old backups, history and trash'
complete -c lbx -n '__lbx_in gc' -l dry-run -d 'Show what would change without changing anything'
complete -c lbx -n '__lbx_in gc' -l keep-days -x -d 'Number of days to keep everything, 30 unless the policy says otherwise'
complete -c lbx -n '__lbx_in gc' -l keep-bytes -x -d 'Maximum bytes to keep: beyond it the oldest is removed, but nothing…'
complete -c lbx -n '__lbx_at 0' -a stats -d 'Show the calls, refusals, output size, time and sessions of each tool'
complete -c lbx -n '__lbx_in stats' -l offset -x -d 'Sessions to skip'
complete -c lbx -n '__lbx_in stats' -l max-bytes -x -d 'Maximum bytes of the sums by session'
complete -c lbx -n '__lbx_at 0' -a doctor -d 'Check the workspace, its state, the snapshots and the machine, and…'
complete -c lbx -n '__lbx_in doctor' -l fix -d 'Make the repairs that can lose nothing'
complete -c lbx -n '__lbx_at 0' -a sandbox -d 'Give a workspace a name, which every tool takes as --sandbox'
complete -c lbx -n '__lbx_in sandbox' -l root -x -a '(__fish_complete_directories (commandline -ct))' -d 'Workspace root'
complete -c lbx -n '__lbx_in sandbox' -l container -x -d 'Running container with its engine, such as podman:build'
complete -c lbx -n '__lbx_in sandbox' -l exec -x -d 'Command that runs another elsewhere, such as ’kubectl exec -i pod --’…'
complete -c lbx -n '__lbx_at 1 sandbox' -a 'list create remove'
complete -c lbx -n '__lbx_at 2 sandbox' -a '(__lbx_asked sandbox)'
complete -c lbx -n '__lbx_at 0' -a fork -d 'Fork the workspace for another agent, as it is on disk'
complete -c lbx -n '__lbx_in fork' -l from -x -a '(__lbx_asked snapshot)' -d 'Begin with this snapshot instead of the files on disk'
complete -c lbx -n '__lbx_in fork' -l at -x -a '(__fish_complete_directories (commandline -ct))' -d 'Copy all files to this new folder, outside the workspace, instead of…'
complete -c lbx -n '__lbx_in fork' -l why -x -d 'Reason, for the list'
complete -c lbx -n '__lbx_in fork' -l stat -d 'With diff, show only line counts for each file'
complete -c lbx -n '__lbx_in fork' -l offset -x -d 'Lines of the diff to skip, or files with stat'
complete -c lbx -n '__lbx_in fork' -l max-bytes -x -d 'Maximum bytes of the diff'
complete -c lbx -n '__lbx_at 0' -a merge -d 'Merge the changes of a fork into the workspace'
complete -c lbx -n '__lbx_in merge' -l check -d 'Show what would merge and where forks overlap, without changing…'
complete -c lbx -n '__lbx_in merge' -l paths -r -F -d 'Merge only these files and folders'
complete -c lbx -n '__lbx_in merge' -l max-bytes -x -d 'Maximum bytes of the list in the response'
complete -c lbx -n '__lbx_in merge' -l dry-run -d 'Show what would change without changing anything'
complete -c lbx -n '__lbx_in merge' -l why -x -d 'Reason for the change, recorded in the snapshot'
complete -c lbx -n '__lbx_at 0' -a config -d 'Show every setting of the policy and its source'
complete -c lbx -n '__lbx_in config' -l explain -d 'Also show the purpose, values and variable of each setting'
complete -c lbx -n '__lbx_in config' -l example -d 'Print a policy file with every setting, its default and an explanation'
complete -c lbx -n '__lbx_at 1+ config' -a '$__lbx_keys'
complete -c lbx -n '__lbx_at 0' -a init -d 'Set up a client to use lbx over MCP in this workspace'
complete -c lbx -n '__lbx_in init' -l client -x -a 'claude-code codex gemini opencode cursor vscode zed goose copilot-cli qwen-code pi antigravity kiro cline' -d 'Client: claude-code, codex, gemini, opencode, cursor, vscode, zed…'
complete -c lbx -n '__lbx_in init' -l plugin -x -a '(__fish_complete_directories (commandline -ct))' -d 'Write a plugin for Claude Code and Codex into this folder: server…'
complete -c lbx -n '__lbx_in init' -l remove -d 'Remove what init added'
complete -c lbx -n '__lbx_in init' -l exclusive -d 'Switch off the client’s own file and shell tools too, if it has a…'
complete -c lbx -n '__lbx_in init' -l guard -d 'Guard the client’s own file and shell tools by its hooks too: gated…'
complete -c lbx -n '__lbx_in init' -l forks -d 'Give agents forks of the workspace: as worktrees of Claude Code, by…'
complete -c lbx -n '__lbx_in init' -l no-server -d 'With guard, leave the MCP server out'
complete -c lbx -n '__lbx_in init' -l tools -x -a '$__lbx_served' -d 'Serve only these tools: core, read-only, or names separated by commas'
complete -c lbx -n '__lbx_in init' -l results -x -d 'Form of results: text or json'
complete -c lbx -n '__lbx_in init' -l confirm -d 'Ask a person at the client about each change'
complete -c lbx -n '__lbx_in init' -l dialect -x -d 'Tools of a model family instead of lbx’s'
complete -c lbx -n '__lbx_in init' -l dry-run -d 'Show what would change without changing anything'
complete -c lbx -n '__lbx_in init' -l why -x -d 'Reason for the change, recorded in the snapshot'
complete -c lbx -n '__lbx_at 0' -a hook -d 'Serve an event of a client’s hooks, given as JSON on stdin'
complete -c lbx -n '__lbx_in hook' -l event -x -d 'The event, as the client’s JSON'
complete -c lbx -n '__lbx_at 0' -a apply_patch -d 'Apply a patch as Codex models do'
complete -c lbx -n '__lbx_in apply_patch' -l dry-run -d 'Show what would change without changing anything'
complete -c lbx -n '__lbx_in apply_patch' -l why -x -d 'Reason for the change, recorded in the snapshot'
complete -c lbx -n '__lbx_at 0' -a schema -d 'Show the JSON Schemas of a tool’s request and response, or of all…'
complete -c lbx -n '__lbx_in schema' -l aliases -d 'List the other field names that are accepted, instead of the schemas'
complete -c lbx -n '__lbx_in schema' -l list -d 'List the tools and what each does, without the schemas'
complete -c lbx -n '__lbx_at 1 schema' -a '$__lbx_schemas'
complete -c lbx -n '__lbx_at 0' -a batch -d 'Carry out many requests, one JSON object per line on stdin'
complete -c lbx -n '__lbx_at 0' -a mcp -d 'Serve the tools over MCP on stdin and stdout'
complete -c lbx -n '__lbx_in mcp' -l results -x -a 'json text' -d 'What a result holds: structured content and the same JSON as text, or…'
complete -c lbx -n '__lbx_in mcp' -l tools -x -a '$__lbx_served' -d 'Tools to serve: all, core, read-only, or names separated by commas'
complete -c lbx -n '__lbx_in mcp' -l confirm -d 'Show each change to the person at the client, and make it only if…'
complete -c lbx -n '__lbx_in mcp' -l sandboxes -x -d 'Sandboxes that calls may name where --workspace or --sandbox settles…'
complete -c lbx -n '__lbx_in mcp' -l forks -d 'Serve fork and merge too, and let calls name the workspace’s forks as…'
complete -c lbx -n '__lbx_at 0' -a help -d 'Show the help of a tool, or a page for agents'
complete -c lbx -n '__lbx_at 1 help' -a '$__lbx_pages'
