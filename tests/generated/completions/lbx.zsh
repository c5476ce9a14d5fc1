#compdef lbx
# Completions of lbx for zsh. Written by tests/generated from the command line; do not edit.

# What tool $1 takes, and the words of list $2. A flag is NAME:ABOUT, or NAME=KIND:ABOUT with a value; a KIND is
# empty, words parted by commas, or @NAME. An asterisk after the last place lets it repeat.
_lbx_data() {
@DATA@
}

# Lines of lbx about the workspace that the command line names; nothing where it cannot tell.
_lbx_ask() {
    command "${_lbx_program}" "${(@)_lbx_options}" "$@" --text </dev/null 2>/dev/null
}

# Offers what fits KIND $1.
_lbx_offer() {
    local -a found lines _lbx_words
    local line
    case $1 in
        ''|-) return 1 ;;
        @path) _files ;;
        @dir) _files -/ ;;
        @session)
            for line in "${(@f)$(_lbx_ask session list)}"; do
                [[ -n $line ]] && found+=("${line%%$'\t'*}:${${line#*$'\t'}//$'\t'/, }")
            done
            _describe -t sessions session found
            ;;
        @sandbox)
            for line in "${(@f)$(_lbx_ask sandbox list)}"; do [[ -n $line ]] && found+=("${line%%$'\t'*}"); done
            _describe -t sandboxes sandbox found
            ;;
        @snapshot)
            for line in "${(@f)$(_lbx_ask log --limit 30)}"; do
                [[ -n $line ]] && found+=("${line%% *}:${line#* }")
            done
            _describe -V -t snapshots snapshot found
            ;;
        @trash)
            for line in "${(@f)$(_lbx_ask trash list --limit 100)}"; do
                [[ -n $line ]] && found+=("${line%%$'\t'*}:${${line#*$'\t'}//$'\t'/, }") lines+=("${${(ps:\t:)line}[3]}")
            done
            _describe -V -t trash 'in the trash' found
            compadd -X 'deleted paths' -a lines
            ;;
        @*)
            _lbx_data '' $1
            # A setting whose value cannot be listed ends in an equals sign.
            found=(${(M)_lbx_words:#*=}) lines=(${_lbx_words:#*=})
            compadd -S '' -a found
            compadd -a lines
            ;;
        *)
            found=(${(s:,:)1})
            compadd -a found
            ;;
    esac
}

_lbx() {
    local _lbx_program=${(Q)words[1]/#\~/$HOME} word tool option name entry kind only_places
    local -a _lbx_options _lbx_tools _lbx_globals _lbx_flags _lbx_places shown
    local -A kinds
    local -i place=1
    _lbx_data '' ''
    _lbx_kinds() {
        for entry in "${(@)_lbx_globals}" "${(@)_lbx_flags}"; do
            name=${entry%%:*}
            [[ $name == *=* ]] && kinds[${name%%=*}]=${name#*=}
        done
    }
    _lbx_kinds
    for word in "${(@Q)words[2,CURRENT-1]}"; do
        if [[ -n $option ]]; then
            [[ $option == --(workspace|session|sandbox) ]] && _lbx_options+=($option $word)
            option=
        elif [[ -z $only_places && $word == -- ]]; then
            only_places=1
        elif [[ -z $only_places && $word == -?* ]]; then
            [[ $word == --(workspace|session|sandbox)=* ]] && _lbx_options+=($word)
            (( ${+kinds[$word]} )) && option=$word
        elif [[ -z $tool ]]; then
            tool=$word
            _lbx_data $tool ''
            _lbx_kinds
        else
            (( place += 1 ))
        fi
    done
    if [[ -n $option ]]; then
        _lbx_offer "${kinds[$option]}"
    elif [[ -z $only_places && $PREFIX == --*=* ]]; then
        option=${PREFIX%%=*}
        compset -P 1 '*='
        _lbx_offer "${kinds[$option]}"
    elif [[ -z $only_places && $PREFIX == -* ]]; then
        for entry in "${(@)_lbx_flags}" "${(@)_lbx_globals}"; do
            name=${entry%%:*}
            shown+=("${name%%=*}:${entry#*:}")
        done
        _describe -o -t options option shown
    elif [[ -z $tool ]]; then
        _describe -t commands tool _lbx_tools
    else
        kind=${_lbx_places[place]}
        [[ -z $kind && ${_lbx_places[-1]} == *'*' ]] && kind=${_lbx_places[-1]}
        _lbx_offer "${kind%'*'}"
    fi
}

if [[ ${funcstack[1]} == _lbx ]]; then _lbx "$@"; else compdef _lbx lbx; fi
