//! Similarity of short texts, and the names that are most similar to a given one.

use crate::text::line_diff;

/// Returns the similarity of two texts by their characters, from 0 (nothing in common) to 1 (equal).
pub fn ratio(one: &str, other: &str) -> f32 {
    let (one, other): (Vec<u32>, Vec<u32>) =
        (one.chars().map(u32::from).collect(), other.chars().map(u32::from).collect());
    similar::diff_ratio(&line_diff::of_numbers(&one, &other), one.len(), other.len())
}

/// Returns the `most` candidates that are most similar to a name, each at least `least` (0 to 1), best first. Ties are
/// sorted by name.
pub fn nearest<'a>(name: &str, candidates: &[&'a str], most: usize, least: f32) -> Vec<&'a str> {
    similar::get_close_matches(name, candidates, most, least)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results equal those of the library, computed on its own copies.
    #[test]
    fn nearest_names_equal_those_of_similar() {
        let names =
            ["ape", "apple", "peach", "puppy", "Apfel", "", "read", "reads", "raed", "größe", "grosse"];
        for name in names.iter().chain(&["appel", "rea", "grösse", "x", "peachpeach"]) {
            for least in [0.0, 0.5, 0.6, 0.85, 1.0] {
                let wanted = similar::get_close_matches(*name, &names, 4, least);
                assert_eq!(nearest(name, &names, 4, least), wanted, "{name} {least}");
            }
        }
    }
}
