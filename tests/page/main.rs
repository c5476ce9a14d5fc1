//! The page of a review in a real browser. Skipped with a message if none is installed.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail, and its name says what it is about"
)]

#[path = "../common/mod.rs"]
#[allow(dead_code, unused_imports, reason = "each test uses a part of it")]
mod common;

mod browser;

use std::path::PathBuf;

use browser::Browser;
use common::Workspace;
use serde_json::json;

/// Text that would have an effect if the page inserted it as markup.
const HOSTILE: &str = "</script><script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">\u{202e}evil";
/// A file name of that kind.
const HOSTILE_NAME: &str = "<img src=x onerror=document.title='hacked'>\"'`${1}&lt;.txt";

/// Creates a story with changes of many kinds, and its page.
fn story() -> (Workspace, PathBuf) {
    let text: String = (1..=60).map(|number| format!("let value_{number} = compute({number});\n")).collect();
    let ws = Workspace::with(&[("src/a.rs", text.as_str()), ("b.txt", "b\n"), ("read.txt", "r\n")]);
    let call = |arguments: &[&str]| ws.lbx(&[arguments, &["--session", "s"]].concat()).success();
    call(&["read", "src/a.rs"]);
    call(&["read", "read.txt"]);
    let edits = json!({"path": "src/a.rs", "session": "s", "why": HOSTILE, "edits": [
        {"old_string": "compute(2)", "new_string": "calculate(2)"},
        {"old_string": "compute(50);", "new_string": "calculate(50);\nadded();"},
    ]});
    ws.json("edit", &edits).ok();
    call(&["write", HOSTILE_NAME, "--content", HOSTILE]);
    ws.write("b.txt", "by hand\n");
    call(&["read", "b.txt"]);
    call(&["append", "b.txt", "--content", "appended\n"]);
    ws.lbx(&["edit", HOSTILE_NAME, "--old-string", "none", "--new-string", "x", "--session", "s"])
        .error("no_match");
    for number in 0..8 {
        call(&["write", &format!("notes/{number}.md"), "--content", &format!("# Note {number}\n")]);
    }
    call(&["undo"]);
    let page = ws.outside.join("review.html");
    call(&["review", "--html", page.to_str().unwrap()]);
    (ws, page)
}

/// Starts a browser, if one is installed.
fn browser(ws: &Workspace) -> Option<Browser> {
    Browser::start(&ws.outside.join("browser"))
}

#[test]
fn review_page_works_in_a_browser() {
    let (ws, page) = story();
    let Some(mut browser) = browser(&ws) else { return };
    browser.open(&page, "", 1280);
    assert_eq!(browser.value("document.title"), "Review of session s in ws");
    assert_eq!(browser.value("document.querySelectorAll('.change').length"), 13);
    browser.until("document.querySelectorAll('#c1 td.add ins').length > 0");
    assert_eq!(browser.value("document.querySelector('#c1 td.del del').textContent"), "compute");
    assert_eq!(browser.value("document.querySelector('#c1 td.add ins').textContent"), "calculate");
    // The list shows the effect and the reason of each change; a failed call is one click away.
    let row = browser.value("document.querySelector('#list-changes li').innerText");
    let row = row.as_str().unwrap();
    assert!(row.contains("+3 −2") && row.contains("</script><script>document"), "{row}");
    browser.value("document.querySelector('#totals a[href=\"#refused\"]').click()");
    browser.until("document.getElementById('refused').getBoundingClientRect().top < 700");
    browser.value("location.hash = ''");
    // Each command is there, ready to be copied.
    let command = "lbx undo --session s --seq 1 --path src/a.rs --hunk 2";
    assert_eq!(browser.value("document.querySelectorAll('#c1 td.hunk button')[1].dataset.command"), command);
    // The keyboard moves through changes and files.
    let current = "document.querySelector('main .current').id";
    for (key, wanted) in
        [("j", "c1"), ("j", "c2"), ("k", "c1"), ("n", "c1-f1"), ("n", "c2-f1"), ("p", "c1-f1"), ("j", "c2")]
    {
        browser.press(key);
        assert_eq!(browser.value(current), wanted, "{key}");
    }
    assert_eq!(browser.value("location.hash"), "#c2");
    // Files can be folded, one or all.
    browser.press("n");
    browser.press("x");
    assert_eq!(browser.value("document.querySelector('main .file.current').open"), false);
    browser.press("a");
    assert_eq!(browser.value("document.querySelectorAll('.file[open]').length"), 0);
    browser.press("a");
    assert_eq!(browser.value("document.querySelectorAll('.file:not([open])').length"), 0);
    // Both views.
    browser.press("u");
    browser.until("document.querySelectorAll('#c1 table.split').length === 1");
    browser.press("u");
    browser.until("document.querySelectorAll('#c1 table.unified').length === 1");
    // The filter, by path, tool and text.
    let shown = "[...document.querySelectorAll('.change:not([hidden])')].map((one) => one.id).join(' ')";
    for (filter, wanted) in
        [("notes/3", "c7"), ("by hand", "d3 c3"), ("CALCULATE(50)", "c1"), ("no such thing", "")]
    {
        browser.value(&format!("(() => {{ const f = document.getElementById('filter'); f.value = '{filter}'; f.dispatchEvent(new Event('input')); }})()"));
        let wanted = json!(wanted);
        browser.until(&format!("({shown}) === {wanted}"));
    }
    browser.press("Escape");
    browser.value("(() => { const t = document.getElementById('tool'); t.value = 'append'; t.dispatchEvent(new Event('change')); })()");
    assert_eq!(browser.value(shown), "c3");
    browser.press("Escape");
    assert_eq!(browser.value("document.querySelectorAll('.change[hidden]').length"), 0);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn hostile_review_content_runs_and_loads_nothing() {
    let (ws, page) = story();
    let Some(mut browser) = browser(&ws) else { return };
    browser.open(&page, "", 1280);
    browser.press("n");
    browser.until("document.querySelectorAll('#c2 td.add').length > 0");
    assert_eq!(browser.value("document.title"), "Review of session s in ws");
    assert_eq!(browser.value("document.querySelectorAll('img, iframe, object, embed, link').length"), 0);
    assert_eq!(browser.value("document.scripts.length"), 2);
    assert_eq!(browser.value("document.querySelector('#c2 .path').textContent"), HOSTILE_NAME);
    // A character that reverses the direction of a line is shown by its number.
    let text = browser.value("document.querySelector('#c2 td.add').textContent");
    assert!(text.as_str().unwrap().contains("U+202Eevil"), "{text}");
    assert!(
        browser
            .value("document.querySelector('#c1 .why').textContent")
            .as_str()
            .unwrap()
            .starts_with("</script><script>")
    );
    // A script inserted in another way would not run either.
    let injected = "(() => { const s = document.createElement('script'); s.textContent = \"document.title = 'hacked'\"; document.body.append(s); return document.title; })()";
    assert_eq!(browser.value(injected), "Review of session s in ws");
    let loads = browser.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
    let loads: Vec<&str> = loads.map(|event| event["params"]["request"]["url"].as_str().unwrap()).collect();
    assert!(loads.iter().all(|url| *url == "about:blank" || url.ends_with("/review.html")), "{loads:?}");
}

#[test]
fn review_page_supports_themes_narrow_screens_and_hunk_links() {
    let (ws, page) = story();
    let Some(mut browser) = browser(&ws) else { return };
    let back = "getComputedStyle(document.body).backgroundColor";
    for (theme, color) in [("dark", "rgb(20, 23, 27)"), ("light", "rgb(255, 255, 255)")] {
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
        browser.call("Emulation.setEmulatedMedia", &media);
        browser.open(&page, "", 1280);
        assert_eq!(browser.value(back), color, "{theme}");
    }
    browser.press("t");
    assert_eq!(browser.value(back), "rgb(20, 23, 27)");
    // On a narrow screen nothing is wider than the screen.
    browser.open(&page, "#c1-f1-h2", 390);
    assert_eq!(browser.value("document.documentElement.scrollWidth <= 390"), true);
    browser.until("document.getElementById('c1-f1-h2').getBoundingClientRect().top < 300");
    assert_eq!(browser.value("document.querySelector('main .current').id"), "c1-f1");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn review_page_shows_long_paths_whole() {
    let path =
        format!("{}/{}.txt", "a-folder-with-a-long-name".repeat(6), "a-file-with-a-long-name".repeat(8));
    let ws = Workspace::with(&[(path.as_str(), "a\n")]);
    ws.lbx(&["append", &path, "--content", "b\n"]).ok();
    let page = ws.outside.join("review.html");
    ws.lbx(&["review", "--html", page.to_str().unwrap()]).ok();
    let Some(mut browser) = browser(&ws) else { return };
    for width in [1280, 390] {
        browser.open(&page, "", width);
        for (tab, link) in [("tab-changes", "#list-changes a"), ("tab-files", "#list-files a")] {
            browser.value(&format!("document.getElementById('{tab}').click()"));
            let link = format!("document.querySelector('{link}')");
            let text = browser.value(&format!("{link}.textContent"));
            assert!(text.as_str().unwrap().contains(&path), "{text}");
            let is_whole = format!("{link}.clientWidth > 0 && {link}.scrollWidth <= {link}.clientWidth");
            assert_eq!(browser.value(&is_whole), true, "{width} {link}");
        }
        let heading = "document.querySelector('.change h2')";
        assert!(browser.value(&format!("{heading}.textContent")).as_str().unwrap().contains(&path));
    }
}

#[test]
fn large_review_page_renders_only_visible_diffs() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let changes: Vec<serde_json::Value> = (1..=500).map(|seq| {
        let files: Vec<serde_json::Value> = (0..4).map(|file| {
            let lines: String = (0..20).map(|line| format!("-old {line} of {seq}\n+new {line} of {seq}\n")).collect();
            json!({"path": format!("src/part{}/file{file}.rs", seq), "action": "modify", "insertions": 20, "deletions": 20,
                "undo": "lbx undo", "by_hunk": true, "diff": format!("@@ -1,20 +1,20 @@\n{lines}")})
        }).collect();
        json!({"by": "session", "seq": seq, "tool": "patch", "time": "2026-01-01T00:00:00Z", "subject": format!("patch: {seq}"), "files": files})
    }).collect();
    // The page of a small story, with the data of a large one.
    ws.lbx(&["write", "b.txt", "--content", "b\n", "--session", "s"]).ok();
    let page = ws.outside.join("review.html");
    ws.lbx(&["review", "--session", "s", "--html", page.to_str().unwrap()]).ok();
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once("<script id=\"data\" type=\"application/json\">").unwrap();
    let (data, after) = rest.split_once("</script>").unwrap();
    let mut data: serde_json::Value = serde_json::from_str(data).unwrap();
    data["story"]["changes"] = json!(changes);
    std::fs::write(
        &page,
        format!("{before}<script id=\"data\" type=\"application/json\">{data}</script>{after}"),
    )
    .unwrap();
    let Some(mut browser) = browser(&ws) else { return };
    browser.open(&page, "", 1280);
    assert_eq!(browser.value("document.querySelectorAll('.file').length"), 2000);
    assert!(browser.value("document.querySelectorAll('table').length").as_u64().unwrap() < 40);
    browser.press("a");
    browser.until("document.querySelectorAll('table').length > 0");
    assert!(browser.value("document.querySelectorAll('table').length").as_u64().unwrap() < 100);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
