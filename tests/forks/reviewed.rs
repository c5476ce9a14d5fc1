//! The changes of forks, alone and next to each other.

use serde_json::json;

use crate::created::{forked, within};

#[test]
fn diff_of_a_fork_applies_to_what_it_began_with() {
    let Some(ws) = forked(&["probe"]) else { return };
    ws.write("gone.txt", "gone\n");
    ws.lbx(&["fork", "one"]).ok();
    let script = "sed -i s/two/2/ src/a.txt; mv docs/c.md src/moved.md; chmod +x src/b.txt; ln -s a.txt src/link; \
                  rm gone.txt; printf '\\0' > src/binary; echo y > target/out";
    within(&ws, "one", &["bash", script]).ok();
    // Later changes of the workspace are not the fork's.
    ws.lbx(&["append", "src/a.txt", "--content", "later\n"]).ok();
    let diffed = ws.lbx(&["fork", "diff", "one"]);
    let text = diffed.warned("left out of what the fork one changed, since git ignores it: 1 file");
    let diff = text["diff"]["diff"].as_str().unwrap().to_owned();
    assert_eq!(text["diff"]["files"], 6, "{diff}");
    for part in [
        "-two\n+2\n",
        "similarity index 100%\nrename from docs/c.md\nrename to src/moved.md\n",
        "diff --git a/src/b.txt b/src/b.txt\nold mode 100644\nnew mode 100755\n",
        "new file mode 120000\n",
        "deleted file mode 100644\n",
        "Binary files /dev/null and b/src/binary differ\n",
    ] {
        assert!(diff.contains(part), "{part}: {diff}");
    }
    assert!(!diff.contains("later"), "{diff}");
    let diff_of = |more: &[&str]| {
        let answer = ws.lbx(&[&["fork", "diff", "one"], more].concat()).envelope();
        answer["data"]["diff"].clone()
    };
    let stat = diff_of(&["--stat"]);
    assert_eq!(
        stat["stat"][1],
        json!({ "path": "src/a.txt", "action": "modify", "insertions": 1, "deletions": 1 })
    );
    let cut = diff_of(&["--max-bytes", "200"]);
    assert_eq!(cut["truncated"], true, "{cut}");
    let next = cut["next_offset"].to_string();
    let rest = diff_of(&["--max-bytes", "0", "--offset", &next]);
    let both = format!("{}{}", cut["diff"].as_str().unwrap(), rest["diff"].as_str().unwrap());
    assert_eq!(both, diff);
    // Without its binary file, git takes the diff for the files that the fork began with.
    ws.lbx(&["undo"]).ok();
    within(&ws, "one", &["delete", "src/binary"]).ok();
    let diff = ws.lbx(&["fork", "diff", "one", "--text"]).stdout_text();
    ws.write("../fork.diff", diff);
    ws.git(&["apply", "--check", "../fork.diff"]);
    // A merged fork differs in nothing.
    ws.lbx(&["merge", "one"]).ok();
    assert_eq!(diff_of(&["--stat"])["files"], 0);
}

#[test]
fn diff_says_if_another_program_changed_the_base() {
    let Some(ws) = forked(&[]) else { return };
    ws.lbx(&["fork", "one", "--set", "snapshot.enabled=false"]).ok();
    within(&ws, "one", &["bash", "echo forked >> target/kept; echo mine > new.txt"]).ok();
    ws.write("new.txt", "theirs\n");
    within(&ws, "one", &["bash", "echo forked >> docs/c.md"]).ok();
    ws.write("docs/c.md", "changed by hand\n");
    let answer = ws.lbx(&["fork", "diff", "one"]);
    answer.warned("is compared with the present version");
}

#[test]
fn review_compares_the_forks_of_a_task() {
    let Some(ws) = forked(&[]) else { return };
    for (name, word) in [("one", "2"), ("two", "zwei"), ("three", "2"), ("four", "4")] {
        ws.lbx(&["fork", name, "--why", &format!("task {name} <b>")]).ok();
        if name != "four" {
            within(
                &ws,
                name,
                &["bash", &format!("sed -i s/two/{word}/ src/a.txt; echo {name} > {name}.txt")],
            )
            .ok();
        }
    }
    let review = ws.lbx(&["review", "--forks", "one", "two", "three"]).ok();
    let facts: Vec<_> = review["forks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fork| {
            json!([
                fork["name"],
                fork["why"],
                fork["insertions"],
                fork["deletions"],
                fork["files"].as_array().unwrap().len()
            ])
        })
        .collect();
    assert_eq!(
        json!(facts),
        json!([
            ["one", "task one <b>", 2, 1, 2],
            ["three", "task three <b>", 2, 1, 2],
            ["two", "task two <b>", 2, 1, 2]
        ])
    );
    assert!(review["forks"][0]["changes"][0].as_str().unwrap().contains("bash: sed -i s/two/2/"), "{review}");
    let shared = &review["shared"];
    assert_eq!(shared.as_array().unwrap().len(), 1, "{shared}");
    assert_eq!(shared[0]["path"], "src/a.txt");
    assert_eq!(shared[0]["sides"][1], json!({ "fork": "three", "same": true }));
    assert!(shared[0]["sides"][2]["diff"].as_str().unwrap().contains("+zwei"), "{shared}");
    let text = ws.lbx(&["review", "--forks", "one,two", "--text"]).stdout_text();
    assert!(text.contains("src/a.txt in one, two") && text.contains("fork one: 2 files (+2 -1)"), "{text}");
    // All forks, without room for diffs.
    let small = ws.lbx(&["review", "--forks", "--max-bytes", "10"]).ok();
    assert_eq!(small["forks"].as_array().unwrap().len(), 4);
    assert_eq!(small["truncated"], true);
    ws.lbx(&["review", "--forks", "none"]).error("sandbox_not_found");
    let page = ws.outside.join("page.html");
    ws.lbx(&["review", "--forks", "--html", page.to_str().unwrap()]).ok();
    let page = std::fs::read_to_string(page).unwrap();
    for part in [
        "<ins>+zwei</ins>",
        "task one &lt;b&gt;",
        "<h2>four</h2><p>0 files",
        "default-src 'none'",
        "as before",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("<b>") && !page.contains("<script"), "{page}");
}

#[test]
fn review_without_forks_says_so() {
    let Some(ws) = forked(&[]) else { return };
    let error = ws.lbx(&["review", "--forks"]).error("sandbox_not_found");
    assert_eq!(error["message"], "this workspace has no forks");
}
