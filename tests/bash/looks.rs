//! Scans of a command: how often the files of the workspace are read.

use crate::common::{Call, Workspace, can_trace};

#[test]
fn direct_command_reads_only_changed_folders_again() {
    if !can_trace() {
        return;
    }
    let ws =
        Workspace::with(&[("a.txt", "one\n"), ("deep/er/kept.txt", "kept\n"), (".gitignore", "*.log\n")]);
    ws.write("ignored.log", "log\n");
    ws.write("untracked.txt", "new\n");
    // A file written just before a scan is read again by the next scan.
    std::thread::sleep(std::time::Duration::from_millis(100));
    ws.lbx(&["bash", "--direct", "true"]).ok();
    for (command, changed) in [("true", 0), ("echo more >> a.txt", 1)] {
        let trace = tempfile::NamedTempFile::new().unwrap();
        let kinds = "trace=newfstatat,statx,stat,lstat,fstat";
        let tracing = ["-f", "-e", kinds, "-o", trace.path().to_str().unwrap()];
        let answer = Call::under("strace", &tracing, &ws.root, &ws.outside.join("home"))
            .arguments(&["bash", "--direct", command])
            .run()
            .success();
        assert_eq!(answer["data"]["changed"].as_array().map(Vec::len), Some(changed), "{answer:#}");
        let calls = std::fs::read_to_string(trace.path()).unwrap();
        for (file, times) in [("kept.txt", 1), ("untracked.txt", 1 + changed), ("ignored.log", 1 + changed)] {
            let looks: Vec<&str> = calls.lines().filter(|line| line.contains(file)).collect();
            assert_eq!(looks.len(), times, "{command}: {file}: {looks:#?}");
        }
    }
}
