//! Similarity of short texts, and the names that are most similar to a given one.

use crate::text::line_diff;

/// Returns the similarity of two texts by their characters, from 0 (nothing in common) to 1 (equal).
pub fn ratio(one: &str, other: &str) -> f32 {
    let (one, other) = (characters(one), characters(other));
    similar::diff_ratio(&line_diff::of_numbers(&one, &other), one.len(), other.len())
}

/// Returns the characters of a text.
fn characters(text: &str) -> Vec<u32> {
    text.chars().map(u32::from).collect()
}

/// Returns the `most` candidates that are most similar to a name, each at least `least` (0 to 1), best first. Ties are
/// sorted by name.
///
/// `similar::get_close_matches` does the same, but brings all algorithms of that package, 4 % of the binary.
pub fn nearest<'a>(name: &str, candidates: &[&'a str], most: usize, least: f32) -> Vec<&'a str> {
    let rated = candidates.iter().map(|candidate| (ratio(name, candidate), *candidate));
    let mut near: Vec<(f32, &str)> = rated.filter(|(ratio, _)| *ratio >= least).collect();
    near.sort_by(|(one, first), (other, second)| other.total_cmp(one).then_with(|| first.cmp(second)));
    near.truncate(most);
    near.into_iter().map(|(_, candidate)| candidate).collect()
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
