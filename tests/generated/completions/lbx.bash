# Completions of lbx for bash. Written by tests/generated from the command line; do not edit.

# What tool $1 takes, and the words of list $2. A flag with a value is FLAG=KIND; a KIND is empty, words parted
# by commas, or @NAME. An asterisk after the last place lets it repeat.
_lbx_data() {
@DATA@
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
