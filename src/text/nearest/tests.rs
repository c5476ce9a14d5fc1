//! The nearest region, by hand.

use super::*;

#[test]
fn the_nearest_region_is_found_and_its_difference_shown() {
    let body = b"fn a() {\n\tlet x = 1;\n}\n\nfn b() {\n\tlet y = 2;\n\treturn y;\n}\n";
    let near = nearest(body, b"fn b() {\n    let y = 2;\n    return y;\n}").unwrap();
    assert_eq!((near.start_line, near.end_line), (5, 8));
    assert!(near.difference.contains("-    let y = 2;\n"), "{}", near.difference);
    assert!(near.difference.contains("+→let y = 2;\n"), "{}", near.difference);
}

#[test]
fn a_line_alone_is_found_by_its_likeness() {
    let body = b"alpha\nlet total = compute_sum(a, b);\nomega\n";
    let near = nearest(body, b"let total = computeSum(a, b);").unwrap();
    assert_eq!((near.start_line, near.end_line), (2, 2));
    assert!(near.ratio > 0.8);
    assert_eq!(nearest(b"x\ny\n", b"nothing at all like that"), None);
    assert_eq!(nearest(b"", b"a"), None);
}

#[test]
fn the_region_is_as_long_as_what_is_there() {
    let body: String = (1..=40).map(|line| format!("statement_number_{line}();\n")).collect();
    let lines = |from: usize, to: usize| -> Vec<String> {
        (from..=to).map(|line| format!("statement_number_{line}();\n")).collect()
    };
    let near = |wanted: String| {
        let near = nearest(body.as_bytes(), wanted.as_bytes()).unwrap();
        (near.start_line, near.end_line)
    };
    // A line is missing in the text looked for; three are in it that the file does not have.
    assert_eq!(near(lines(10, 20).concat().replace("statement_number_13();\n", "")), (10, 20));
    assert_eq!(near(lines(10, 12).concat() + "invented\nby\nsomeone\n"), (10, 12));
    let mut wanted = lines(10, 20);
    wanted.insert(4, "invented();\nby();\n".to_owned());
    assert_eq!(near(wanted.concat()), (10, 20));
    // What is left out of the middle is no difference of the ends.
    assert_eq!(near("statement_number_5();\n...\nstatement_number_30();\n".to_owned()), (5, 30));
    assert_eq!(near("statement_number_5();\n  …\nstatement_number_7();\n".to_owned()), (5, 7));
}

#[test]
fn many_near_lines_are_few_votes() {
    let body = "let value = compute(a, b);\n".repeat(20_000);
    let wanted = "let value = compute(a, b);\n".repeat(3_000) + "let other = compute(a, b);\n";
    let near = nearest(body.as_bytes(), wanted.as_bytes()).unwrap();
    assert!(near.difference.len() < 3000, "{}", near.difference.len());
}

#[test]
fn line_endings_alone_are_no_difference() {
    let near = nearest(b"one\rtwo\rthree\r", b"one\ntwx\nthree\n").unwrap();
    assert_eq!((near.difference.as_str(), near.first_difference), (" one\n-twx\n+two\n three\n", (2, 3)));
    // But the lack of one is.
    let near = nearest(b"one\ntwo", b"two\n").unwrap();
    assert_eq!((near.difference.as_str(), near.first_difference), ("\\ No newline at end of file\n", (2, 4)));
}

#[test]
fn whitespace_is_made_visible() {
    assert_eq!(visible(b"a\tb  \n"), "a→b··");
    assert_eq!(visible(b"a\r\n"), "a");
    assert_eq!(visible(b"a\r"), "a␍");
    assert_eq!(visible("caf\u{e9}\u{a0}‘x’\u{feff}".as_bytes()), "café‹U+00A0›‘x’‹U+FEFF›");
    assert_eq!(visible(b"caf\xe9\n"), "caf‹0xE9›");
}
