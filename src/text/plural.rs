//! A number with its noun.

use std::fmt::Display;

/// Returns a count with its noun, given in the singular: `1 file`, `2 files`, `0 entries`.
///
/// The last word takes the plural by the regular rules of English.
#[must_use]
pub fn plural<N: Copy + Display + PartialEq + From<u8>>(count: N, singular: &str) -> String {
    if count == N::from(1) {
        return format!("{count} {singular}");
    }
    let plural = match singular.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{stem}ies"),
        _ if singular.ends_with("ch") || singular.ends_with("sh") || singular.ends_with(['s', 'x']) => {
            format!("{singular}es")
        }
        _ => format!("{singular}s"),
    };
    format!("{count} {plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_of_one_is_singular_and_others_are_plural() {
        assert_eq!(plural(1_u64, "file"), "1 file");
        assert_eq!(plural(0_usize, "file"), "0 files");
        assert_eq!(plural(2_u64, "entry"), "2 entries");
        assert_eq!(plural(3_u64, "match"), "3 matches");
        assert_eq!(plural(1_u64, "more byte"), "1 more byte");
        assert_eq!(plural(4_u64, "way"), "4 ways");
    }
}
