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
@DATA@
