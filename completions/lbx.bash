# Completions of lbx for bash. Written by tests/generated from the command line; do not edit.

# What tool $1 takes, and the words of list $2. A flag with a value is FLAG=KIND; a KIND is empty, words parted
# by commas, or @NAME. An asterisk after the last place lets it repeat.
_lbx_data() {
    _lbx_tools='read write edit patch append prepend insert section grep glob ls bash mkdir delete restore move undo redo rewind log diff review blame squash watch snapshot audit session trash gc stats doctor sandbox fork merge config init hook apply_patch schema batch mcp help'
    _lbx_globals='--workspace=@dir --session=@session --sandbox=@sandbox --require-snapshot --dialect=claude,anthropic-editor,anthropic-memory,codex,gemini,opencode,mcp-filesystem,q --set=@settings --json= -t --text -0 --null --pretty --exit-status -h --help'
    case $1 in
        read) _lbx_flags='--offset= --limit= --start-line= --end-line= --ranges= --around-line= --column= -n --line-numbers --show-whitespace --cell= --if-sha256= --binary=base64 --encoding= --max-bytes=' _lbx_places='@path @path*' ;;
        write) _lbx_flags='--line-ending=as_is,keep --expected-sha256= --create-only --allow-omission --mode= --dry-run --why= --encoding= --diff --max-bytes= --content=' _lbx_places='@path' ;;
        edit) _lbx_flags='--old-string= --new-string= --word --replace-all --expected-replacements= --occurrence= --start-line= --end-line= --range-sha256= --match=exact,flexible --edits= --sketch= --allow-omission --expected-sha256= --allow-repeat --rebase --dry-run --why= --encoding= --diff --max-bytes=' _lbx_places='@path @path*' ;;
        patch) _lbx_flags='--path=@path -p= --strip= --expected-sha256-by-path= --fuzz= --strict -R --reverse --allow-repeat --dry-run --why= --encoding= --diff --max-bytes= --patch=' _lbx_places='' ;;
        append) _lbx_flags='--expected-sha256= --dry-run --why= --encoding= --diff --max-bytes= --content=' _lbx_places='@path' ;;
        prepend) _lbx_flags='--expected-sha256= --dry-run --why= --encoding= --diff --max-bytes= --content=' _lbx_places='@path' ;;
        insert) _lbx_flags='--expected-sha256= --dry-run --why= --encoding= --diff --max-bytes= --content=' _lbx_places='@path -' ;;
        section) _lbx_flags='--append --include-subsections=true,false --create --level= --occurrence= --allow-omission --expected-sha256= --dry-run --why= --encoding= --diff --max-bytes= --content=' _lbx_places='@path -' ;;
        grep) _lbx_flags='-g= --include= --exclude= -t=@types --type=@types -T=@types --type-not=@types -F --literal -i --ignore-case -S --smart-case -w --word -x --whole-line -U --multiline -v --invert -o --only-matching -B= --before= -A= --after= -C= --context= --output-mode=content,files,count,count_matches,files_with_matches --limit= --offset= -m= --max-count= -d= --depth= -. --hidden --no-ignore -a --binary -M= --max-columns= --max-bytes= --total --sort=path,mtime --group --mark --timeout-ms= -e= --regexp= -l --files-with-matches -c --count --count-matches -u --unrestricted -q --quiet --text' _lbx_places='- @path*' ;;
        glob) _lbx_flags='--exclude= --sort=path,mtime --type=file,dir,symlink -i --ignore-case --hidden --no-ignore --limit= --offset= --max-bytes= --timeout-ms=' _lbx_places='- @path*' ;;
        ls) _lbx_flags='-R --recursive --depth= --sort=path,mtime,size -l --long --sums -a --hidden --no-ignore --limit= --offset= --max-bytes= --timeout-ms= --help' _lbx_places='@path*' ;;
        bash) _lbx_flags='-C=@dir --workdir=@dir --timeout-ms= --env= --stdin= --network=true,false --transaction --direct --on-failure=keep,discard --dry-run --max-bytes= -b --background --job= --offset= --stop --layer= --apply --drop --list --backends --why=' _lbx_places='-' ;;
        mkdir) _lbx_flags='--dry-run --why=' _lbx_places='@path' ;;
        delete) _lbx_flags='-r --recursive --expected-sha256= --max-bytes= --dry-run --why=' _lbx_places='@path*' ;;
        restore) _lbx_flags='--trash-id=@trash --to=@path --dry-run --why=' _lbx_places='@trash' ;;
        move) _lbx_flags='--expected-sha256= --dry-run --why=' _lbx_places='@path @path' ;;
        undo) _lbx_flags='--steps= --merge --turn= --max-bytes= --dry-run --why= --seq= --hunk=' _lbx_places='@path' ;;
        redo) _lbx_flags='--steps= --merge --turn= --max-bytes= --dry-run --why=' _lbx_places='@path' ;;
        rewind) _lbx_flags='--turn= -y --yes --merge --max-bytes= --dry-run --why=' _lbx_places='@snapshot' ;;
        log) _lbx_flags='-n= --limit= --offset= --since= --grep= --stat --turns --graph --max-bytes=' _lbx_places='@path' ;;
        diff) _lbx_flags='--from=@snapshot --to=@snapshot --of=@snapshot --binary --stat --by-session --offset= --max-bytes=' _lbx_places='@path @path*' ;;
        review) _lbx_flags='--html=@path --forks --stat --offset= --max-bytes=' _lbx_places='-*' ;;
        blame) _lbx_flags='--start-line= --end-line= --max-bytes=' _lbx_places='@path' ;;
        squash) _lbx_flags='-m= --message= --onto= --checked-out --co-author= --per-file --keep-history --dry-run' _lbx_places='@path*' ;;
        watch) _lbx_flags='--after= --all' _lbx_places='' ;;
        snapshot) _lbx_flags='' _lbx_places='-' ;;
        audit) _lbx_flags='--limit= --offset= --verify --max-bytes=' _lbx_places='@path' ;;
        session) _lbx_flags='--offset= --max-bytes= --dry-run' _lbx_places='status,list,forget,compact,brief,end @path*' ;;
        trash) _lbx_flags='--trash-id=@trash --limit= --offset= --max-bytes= --dry-run' _lbx_places='list,purge' ;;
        gc) _lbx_flags='--dry-run --keep-days= --keep-bytes=' _lbx_places='' ;;
        stats) _lbx_flags='--offset= --max-bytes=' _lbx_places='' ;;
        doctor) _lbx_flags='--fix' _lbx_places='' ;;
        sandbox) _lbx_flags='--root=@dir --container= --exec=' _lbx_places='list,create,remove @sandbox' ;;
        fork) _lbx_flags='--from=@snapshot --at=@dir --why= --stat --offset= --max-bytes=' _lbx_places='- - -*' ;;
        merge) _lbx_flags='--check --paths=@path --max-bytes= --dry-run --why=' _lbx_places='-' ;;
        config) _lbx_flags='--explain --example' _lbx_places='@keys*' ;;
        init) _lbx_flags='--client=claude-code,codex,gemini,opencode,cursor,vscode,zed,goose,copilot-cli,qwen-code,pi,antigravity,kiro,cline --plugin=@dir --remove --exclusive --guard --forks --no-server --tools=@served --results= --confirm --dialect= --dry-run --why=' _lbx_places='-' ;;
        hook) _lbx_flags='--event=' _lbx_places='- -' ;;
        apply_patch) _lbx_flags='--dry-run --why=' _lbx_places='-' ;;
        schema) _lbx_flags='--aliases --list' _lbx_places='@schemas' ;;
        batch) _lbx_flags='' _lbx_places='' ;;
        mcp) _lbx_flags='--results=json,text --tools=@served --confirm --sandboxes= --forks' _lbx_places='' ;;
        help) _lbx_flags='' _lbx_places='@pages' ;;
    esac
    case $2 in
        @pages) _lbx_words='read write edit patch append prepend insert section grep glob ls bash mkdir delete restore move undo redo rewind log diff review blame squash watch snapshot audit session trash gc stats doctor sandbox fork merge config init hook apply_patch schema batch mcp agents' ;;
        @schemas) _lbx_words='Bash BashOutput Edit Glob Grep KillShell LS MultiEdit NotebookEdit Read Write append apply_patch audit bash blame config create_directory delete diff directory_tree doctor edit edit_file exec_command execute_bash fork fs_read fs_write gc get_file_info glob grep grep_files grep_search hook init insert list list_allowed_directories list_dir list_directory list_directory_with_sizes log ls memory merge mkdir move move_file patch prepend read read_file read_many_files read_media_file read_multiple_files read_text_file redo replace restore review rewind run_shell_command sandbox schema search_file_content search_files section session shell shell_command snapshot squash stats str_replace_based_edit_tool str_replace_editor trash undo view_image watch write write_file' ;;
        @types) _lbx_words='ada agda aidl alire amake asciidoc asm asp ats avro awk bat batch bazel bitbake boxlang brotli buildstream bzip2 c cabal candid carp cbor ceylon cfml clojure cmake cmd cml coffeescript config container coq cpp creole crystal cs csharp cshtml csproj css csv cuda cython d dart devicetree dhall diff dita docker dockercompose dts dvc ebuild edn elisp elixir elm erb erlang fennel fidl fish flatbuffers fortran fsharp fut gap gdscript gleam gn go gprbuild gradle graphql groovy gzip h haml hare haskell hbs hs html hurl hy idris janet java jinja jl js json jsonl julia jupyter k kconfig kotlin lean less license lilypond lisp llvm lock log lua lz4 lzma m4 make mako man markdown matlab md meson minified mint mk ml mojo motoko msbuild nim nix objc objcpp ocaml org pants pascal pdf perl php pkgbuild po pod postscript prolog proto protobuf ps puppet purs py python qmake qml qrc qui r racket raku rdoc readme reasonml red rescript robot rocq rst ruby rust sass scala scdoc seed7 sh slim smarty sml solidity soy spark spec sql ssa stylus sv svelte svg swift swig systemd taskpaper tcl tex texinfo textile tf thrift toml ts twig txt typescript typoscript typst usd v vala vb vcl verilog vhdl vim vimscript vue webidl wgsl wiki xml xz yacc yaml yang z zig zsh zstd' ;;
        @keys) _lbx_words='gate patch_gate match hard_links durable protect loosen write.in_place guard.gate guard.bash guard.files guard.on_failure guard.timeout_ms guard.titles limits.max_bytes limits.read limits.grep limits.glob limits.ls limits.log limits.audit limits.max_columns limits.search_ms limits.file_bytes limits.lock_seconds snapshot.enabled snapshot.branch snapshot.require snapshot.file_bytes snapshot.exclude snapshot.git_dirs snapshot.scan_seconds snapshot.scan_files snapshot.scan_bytes gc.keep_days gc.keep_bytes bash.backend bash.network bash.writable bash.readable bash.caches bash.hidden bash.env bash.timeout_ms bash.job_ms bash.memory_bytes bash.processes bash.file_bytes bash.ignored_file_bytes bash.ignored_bytes bash.output_bytes' ;;
        @settings) _lbx_words='gate=strict gate=warn gate=off patch_gate=marks patch_gate=context match=exact match=flexible hard_links=refuse hard_links=replace durable=true durable=false protect= loosen= write.in_place= guard.gate=deny guard.gate=warn guard.gate=off guard.bash=wrap guard.bash=record guard.bash=off guard.files= guard.on_failure=closed guard.on_failure=open guard.timeout_ms= guard.titles=true guard.titles=false limits.max_bytes= limits.read= limits.grep= limits.glob= limits.ls= limits.log= limits.audit= limits.max_columns= limits.search_ms= limits.file_bytes= limits.lock_seconds= snapshot.enabled=true snapshot.enabled=false snapshot.branch= snapshot.require=true snapshot.require=false snapshot.file_bytes= snapshot.exclude= snapshot.git_dirs= snapshot.scan_seconds= snapshot.scan_files= snapshot.scan_bytes= gc.keep_days= gc.keep_bytes= bash.backend=auto bash.backend=bubblewrap bash.backend=namespaces bash.backend=auto-landlock bash.backend=landlock bash.backend=none bash.network=deny bash.network=allow bash.network= bash.writable= bash.readable= bash.caches= bash.hidden= bash.env= bash.timeout_ms= bash.job_ms= bash.memory_bytes= bash.processes= bash.file_bytes= bash.ignored_file_bytes= bash.ignored_bytes= bash.output_bytes=' ;;
        @served) _lbx_words='all core read-only' ;;
    esac
}

# Lines of lbx about the workspace that the command line names; nothing where it cannot tell.
_lbx_ask() {
    command "$_lbx_program" ${_lbx_options[@]+"${_lbx_options[@]}"} "$@" --text </dev/null 2>/dev/null
}

# The words that fit KIND $1, one a line.
_lbx_candidates() {
    local id rest
    case $1 in
    @session) _lbx_ask session list | cut -f 1 ;;
    @sandbox) _lbx_ask sandbox list | cut -f 1 ;;
    @snapshot) _lbx_ask log --limit 30 | cut -d ' ' -f 1 ;;
    @trash)
        _lbx_ask trash list --limit 100 | cut -f 1,3 | while IFS=$'\t' read -r id rest; do
            printf '%s\n%q\n' "$id" "$rest"
        done
        ;;
    @*)
        local _lbx_words=''
        _lbx_data '' "$1"
        printf '%s\n' "${_lbx_words// /$'\n'}"
        ;;
    *) printf '%s\n' "${1//,/$'\n'}" ;;
    esac
}

# Offers what fits KIND $1 and begins with $2; $3 stands before each.
_lbx_offer() {
    local word
    case $1 in
    '' | -) return ;;
    @path | @dir)
        local what=-f
        if [[ $1 == @dir ]]; then what=-d; fi
        compopt -o filenames 2>/dev/null
        while IFS= read -r word; do COMPREPLY+=("$3$word"); done < <(compgen "$what" -- "$2")
        ;;
    *)
        while IFS= read -r word; do
            if [[ $word == "$2"* ]]; then COMPREPLY+=("$3$word"); fi
        done < <(_lbx_candidates "$1")
        ;;
    esac
}

_lbx() {
    local _lbx_program=${COMP_WORDS[0]/#\~/$HOME} _lbx_tools _lbx_globals _lbx_flags='' _lbx_places=''
    local -a _lbx_options=() line=()
    local word tool='' option='' places=() place=0 only_places='' count=0 i
    COMPREPLY=()
    _lbx_data '' ''
    # Bash parts words at an equals sign: they are put together again.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((count > 1)) && [[ $word == = || ${COMP_WORDS[i - 1]} == = ]]; then
            line[count - 1]+=$word
        else
            line[count++]=$word
        fi
    done
    local current=${line[count - 1]}
    for ((i = 1; i < count - 1; i++)); do
        word=${line[i]}
        if [[ $option ]]; then
            case $option in --workspace | --session | --sandbox) _lbx_options+=("$option" "$word") ;; esac
            option=''
        elif [[ ! $only_places && $word == -- ]]; then
            only_places=1
        elif [[ ! $only_places && $word == -?* ]]; then
            case $word in --workspace=* | --session=* | --sandbox=*) _lbx_options+=("$word") ;; esac
            if [[ " $_lbx_flags $_lbx_globals " == *" $word="* ]]; then option=$word; fi
        elif [[ ! $tool ]]; then
            tool=$word
            _lbx_data "$tool" ''
        else
            place=$((place + 1))
        fi
    done
    local all=" $_lbx_flags $_lbx_globals " kind
    if [[ $option ]]; then
        kind=${all#*" $option="}
        _lbx_offer "${kind%% *}" "$current" ''
    elif [[ ! $only_places && $current == --*=* ]]; then
        option=${current%%=*}
        if [[ $all == *" $option="* ]]; then
            kind=${all#*" $option="}
            _lbx_offer "${kind%% *}" "${current#*=}" "$option="
        fi
    elif [[ ! $only_places && $current == -* ]]; then
        for word in $all; do
            if [[ ${word%%=*} == "$current"* ]]; then COMPREPLY+=("${word%%=*}"); fi
        done
    elif [[ ! $tool ]]; then
        _lbx_offer "${_lbx_tools// /,}" "$current" ''
    else
        read -r -a places <<<"$_lbx_places"
        kind=${places[place]-}
        if [[ ! $kind && ${#places[@]} -gt 0 && ${places[${#places[@]} - 1]} == *'*' ]]; then
            kind=${places[${#places[@]} - 1]}
        fi
        _lbx_offer "${kind%'*'}" "$current" ''
    fi
    # A value that is still to be written follows at once.
    if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
    if [[ $current == *=* && $COMP_WORDBREAKS == *=* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${current%=*}="}")
    fi
}

complete -F _lbx lbx
