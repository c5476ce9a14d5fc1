//! The manual pages, generated from the command line's tree, the schemas and [`prose`].

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Arg, Command};
use clap_mangen::Man;
use lbx::catalog;
use lbx::cli::commands::{positionals, tree};
use lbx::dialect::DIALECTS;
use lbx::engine::policy::settings::{SETTINGS, WorkspaceRights};
use lbx::engine::policy::values::expected;
use lbx::error::ErrorKind;
use lbx::request::schema_for_callers;
use lbx::tools::Stdin;
use serde_json::Value;

use super::examples::{self, Example};
use super::prose;

/// Heading of the options of every tool.
const GLOBAL: &str = "Options of every tool";
/// Depth to which the fields of a response are described.
const DEPTH_MAX: usize = 3;

/// Returns every page with its file name.
pub fn all() -> Vec<(String, Vec<u8>)> {
    let mut tree = tree();
    tree.build();
    let mut pages = vec![
        ("lbx.1".to_owned(), main_page(&tree)),
        ("lbx-json.7".to_owned(), json_page()),
        ("lbx-policy.5".to_owned(), policy_page()),
        ("lbx-dialects.7".to_owned(), dialects_page()),
    ];
    for command in tree.get_subcommands() {
        pages.push((format!("lbx-{}.1", command.get_name()), tool_page(command)));
    }
    pages
}

/// Returns the page of one tool.
fn tool_page(command: &Command) -> Vec<u8> {
    let name = format!("lbx-{}", command.get_name());
    let mut page = Page::new(&name, 1, &about(command));
    page.section("SYNOPSIS");
    page.verbatim(&synopsis(command));
    page.section("DESCRIPTION");
    page.text(&description(command));
    page.section("OPTIONS");
    page.options(command);
    page.text("The options of every tool are in lbx(1).");
    if let Some(tool) = catalog::find(command.get_name()) {
        page.section("RESPONSE");
        page.text("The fields of data, in the envelope that lbx-json(7) describes:");
        page.fields(&(tool.response_schema)(), "", 1, &[]);
    }
    for (title, text) in prose::sections_of(command.get_name()) {
        page.section(title);
        page.prose(text);
    }
    page.examples(command.get_name());
    page.section("EXIT STATUS");
    page.text(
        "0 if the response has ok: true, otherwise the status of the error's kind, from 2 to 18, or 70: \
         lbx-json(7) lists them.",
    );
    if let Some((_, status)) = prose::EXIT_STATUS.iter().find(|(tool, _)| *tool == command.get_name()) {
        page.text(status);
    }
    page.see_also(&["lbx(1)", "lbx-json(7)", "lbx-policy(5)"]);
    page.finish()
}

/// Returns the page of lbx itself.
fn main_page(tree: &Command) -> Vec<u8> {
    let mut page = Page::new("lbx", 1, &about(tree));
    page.section("SYNOPSIS");
    page.verbatim(
        "lbx [OPTIONS] TOOL [ARGUMENTS]\nlbx TOOL --json JSON|-|@FILE\nlbx batch < REQUESTS\nlbx mcp [OPTIONS]",
    );
    page.section("DESCRIPTION");
    page.text(&description(tree));
    page.section("TOOLS");
    for tool in tree.get_subcommands() {
        page.entry(&format!("lbx-{}(1)", tool.get_name()), &about(tool));
    }
    page.section("OPTIONS OF EVERY TOOL");
    page.global_options(tree);
    page.section("EXIT STATUS");
    page.statuses();
    for (title, entries) in [("ENVIRONMENT", prose::ENVIRONMENT), ("FILES", prose::FILES)] {
        page.section(title);
        for (name, what) in entries {
            page.entry(name, what);
        }
    }
    page.examples("lbx");
    page.see_also(&["lbx-json(7)", "lbx-dialects(7)", "lbx-policy(5)", "git(1)", "rg(1)"]);
    page.finish()
}

/// Returns the page of requests, answers and kinds of error.
fn json_page() -> Vec<u8> {
    let mut page = Page::new("lbx-json", 7, "requests, responses and errors of lbx as JSON");
    for (title, text) in prose::JSON {
        page.section(title);
        page.prose(text);
    }
    page.section("KINDS OF ERROR AND EXIT STATUS");
    page.statuses();
    page.see_also(&["lbx(1)", "lbx-policy(5)"]);
    page.finish()
}

/// Returns the page of the model families' tools, with the differences from the originals.
fn dialects_page() -> Vec<u8> {
    let mut page = Page::new("lbx-dialects", 7, "the tools of model families, as lbx serves them");
    for (title, text) in prose::DIALECTS {
        page.section(title);
        page.prose(text);
    }
    for dialect in DIALECTS {
        page.section(&dialect.name.to_uppercase());
        for tool in dialect.tools {
            let schema = schema_for_callers(tool.schema());
            let properties = schema.get("properties").and_then(Value::as_object);
            let fields: Vec<&str> = properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
            let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
            let about = about.split("\n\n").next().unwrap_or_default().replace('\n', " ");
            page.entry(&format!("{} {}", tool.name, fields.join(", ")), &about);
        }
        page.text("Differences:");
        for difference in dialect.differences {
            page.item(difference);
        }
    }
    page.see_also(&["lbx(1)", "lbx-mcp(1)", "lbx-schema(1)", "lbx-json(7)"]);
    page.finish()
}

/// Returns the page of the policy.
fn policy_page() -> Vec<u8> {
    let mut page = Page::new("lbx-policy", 5, "the settings of lbx in a workspace");
    for (title, text) in prose::POLICY {
        page.section(title);
        page.prose(text);
    }
    page.section("SETTINGS");
    for setting in SETTINGS {
        let workspace = match setting.workspace {
            WorkspaceRights::Freely => "The workspace's file sets it freely.".to_owned(),
            WorkspaceRights::UpTo(most) => format!("The workspace's file sets it up to {most}."),
            WorkspaceRights::UnlessUser => {
                "The workspace's file sets it, no looser than the user's.".to_owned()
            }
            WorkspaceRights::UnlessUserUpTo(most) => {
                format!("The workspace's file sets it up to {most}, no looser than the user's.")
            }
            WorkspaceRights::MoreStrictly => "The workspace's file makes it stricter only.".to_owned(),
            WorkspaceRights::MoreStrictlyUpTo(most) => {
                format!("The workspace's file makes it stricter only, up to {most}.")
            }
            WorkspaceRights::Never => "The workspace's file cannot set it.".to_owned(),
            WorkspaceRights::UserOnly => "Only the user's own file sets it.".to_owned(),
        };
        let takes = expected(setting.form);
        let default = lbx::engine::policy::layers::toml_text(&setting.default);
        page.entry(
            setting.name,
            &format!("{}\n.br\nTakes {takes}. Default: {default}. {workspace}", setting.about),
        );
    }
    page.see_also(&["lbx(1)", "lbx-config(1)"]);
    page.finish()
}

/// Returns the purpose of a command, in one line.
fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

/// Returns the description of a command, without the line that begins the page.
fn description(command: &Command) -> String {
    let about = about(command);
    let long = command.get_long_about().map_or_else(|| about.clone(), ToString::to_string);
    let rest = long.strip_prefix(&about).unwrap_or(&long).trim();
    let whole = if rest.is_empty() { about } else { format!("{about}.\n\n{rest}") };
    whole.replace('`', "")
}

/// Returns true if an argument is one of those of every tool.
fn is_global(argument: &Arg) -> bool {
    argument.get_help_heading() == Some(GLOBAL) || argument.get_id() == "help"
}

/// Returns the usage line of a command: required arguments have no brackets.
fn synopsis(command: &Command) -> String {
    let name = command.get_name();
    let mut words = vec![format!("lbx {name}")];
    let own: Vec<&Arg> =
        command.get_arguments().filter(|argument| !argument.is_hide_set() && !is_global(argument)).collect();
    words.extend(positionals(command));
    for argument in own.iter().filter(|argument| !argument.is_positional()) {
        let Some(flag) = argument.get_long().map(|long| format!("--{long}")) else { continue };
        let takes_value = argument.get_action().takes_values();
        let shown = if takes_value { format!("{flag} {}", value_of(argument)) } else { flag };
        words.push(if argument.is_required_set() { shown } else { format!("[{shown}]") });
    }
    let mut lines = wrapped(&words);
    if let Some(tool) = catalog::find(name) {
        if let Stdin::Bulk { field, .. } = tool.stdin {
            let _ = write!(lines, "\nlbx {name} ... < {}", field.to_uppercase());
        }
        let _ = write!(lines, "\nlbx {name} --json JSON|-|@FILE");
    }
    lines
}

/// Returns the name of an argument's value.
fn value_of(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    if names.is_empty() {
        return argument.get_id().as_str().to_uppercase();
    }
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Wraps words into lines of at most 76 characters, the later ones indented.
fn wrapped(words: &[String]) -> String {
    let mut lines = vec![String::new()];
    for word in words {
        let Some(line) = lines.last_mut() else { continue };
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + word.len() < 76 {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(format!("    {word}"));
        }
    }
    lines.join("\n")
}

/// A page under construction.
struct Page(String);

impl Page {
    /// Begins a page with its heading and its name. It has no date, because it always matches the command line.
    fn new(name: &str, section: u8, about: &str) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let title = name.to_uppercase();
        let mut page =
            Self(format!(".TH {} {section} \"\" \"lbx {version}\" \"lbx manual\"\n", escaped(&title)));
        page.section("NAME");
        let _ = writeln!(page.0, "{} \\- {}", escaped(name), escaped(&about.replace('`', "")));
        page
    }

    /// Begins a section.
    fn section(&mut self, title: &str) {
        let _ = writeln!(self.0, ".SH {}", quoted(title));
    }

    /// Adds paragraphs, which blank lines separate.
    fn text(&mut self, text: &str) {
        for paragraph in text.split("\n\n") {
            let lines = paragraph.split('\n').map(str::trim).collect::<Vec<_>>().join(" ");
            let _ = writeln!(self.0, ".PP\n{}", escaped(&lines));
        }
    }

    /// Adds paragraphs; those with every line indented are kept as they are.
    fn prose(&mut self, text: &str) {
        for paragraph in text.trim_matches('\n').split("\n\n") {
            match prose::verbatim(paragraph) {
                Some(lines) => self.verbatim(&lines),
                None => self.text(paragraph),
            }
        }
    }

    /// Adds lines as they are.
    fn verbatim(&mut self, text: &str) {
        let _ = writeln!(self.0, ".PP\n.nf\n.RS 4\n{}\n.RE\n.fi", escaped(text));
    }

    /// Adds an item of a list.
    fn item(&mut self, text: &str) {
        let _ = writeln!(self.0, ".IP \\(bu 2\n{}", escaped(text));
    }

    /// Adds a term and its definition.
    fn entry(&mut self, tag: &str, what: &str) {
        let _ = writeln!(self.0, ".TP\n\\fB{}\\fR\n{}", escaped(tag), escaped(&what.replace('`', "")));
    }

    /// Adds the options of a command, without the global ones.
    fn options(&mut self, command: &Command) {
        let own = command.clone().mut_args(|argument| {
            let hide = argument.is_hide_set() || is_global(&argument);
            let argument = argument.hide(hide);
            // The generator does not show that a word may be repeated.
            let repeats = argument.get_num_args().is_some_and(|range| range.max_values() > 1);
            let several: &'static str = format!("{}...", value_of(&argument)).leak();
            if argument.is_positional() && repeats { argument.value_name(several) } else { argument }
        });
        self.rendered(own);
    }

    /// Adds the options of every tool.
    fn global_options(&mut self, tree: &Command) {
        let global = tree.clone().mut_args(|argument| argument.help_heading(None::<&str>));
        self.rendered(global);
    }

    /// Adds the options of a command as the generator renders them, without its headings.
    fn rendered(&mut self, command: Command) {
        let mut options = Vec::new();
        Man::new(command).render_options_section(&mut options).unwrap();
        let options = String::from_utf8(options).unwrap();
        for line in options.lines().filter(|line| !line.starts_with(".SH ")) {
            let _ = writeln!(self.0, "{line}");
        }
    }

    /// Adds the fields of a response, with those of its lists. `forms` are the forms of the whole response: if a list
    /// has items of such a form, the page names it instead of repeating its fields.
    fn fields(&mut self, schema: &Value, prefix: &str, depth: usize, forms: &[Value]) {
        let fields_of = |form: &Value| form.get("properties").cloned().unwrap_or_default();
        if let Some(number) = (1..).zip(forms).find(|(_, form)| **form == fields_of(schema)).map(|(at, _)| at)
            && depth > 1
        {
            self.entry(&format!("{prefix}*"), &format!("The fields of form {number}"));
            return;
        }
        if let Some(one_of) = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array()) {
            let of_whole: Vec<Value> = one_of.iter().map(fields_of).collect();
            let forms = if depth == 1 { &of_whole } else { forms };
            for (form, number) in one_of.iter().zip(1..) {
                if let Some(what) = form.get("description").and_then(Value::as_str)
                    && depth == 1
                {
                    let _ = writeln!(self.0, ".PP\n\\fIForm {number}\\fR: {}", escaped(&in_words(what)));
                }
                self.fields(form, prefix, depth, forms);
            }
        }
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let what = field.get("description").and_then(Value::as_str).unwrap_or_default();
            let optional = if required.contains(&name.as_str()) { "" } else { " (may be absent)" };
            let whole = format!("{prefix}{name}");
            self.entry(&whole, &format!("{}{optional}", in_words(what)));
            if depth < DEPTH_MAX {
                let items = field.get("items").map(|items| (items, "[]."));
                let (inner, joint) = items.unwrap_or((field, "."));
                self.fields(inner, &format!("{whole}{joint}"), depth + 1, forms);
            }
        }
    }

    /// Adds every kind of error with its exit status.
    fn statuses(&mut self) {
        self.entry("0", "The response has ok: true.");
        let mut by_status: BTreeMap<u8, Vec<ErrorKind>> = BTreeMap::new();
        for kind in ErrorKind::ALL {
            by_status.entry(kind.exit_code()).or_default().push(kind);
        }
        for (status, kinds) in by_status {
            let named: Vec<String> =
                kinds.iter().map(|kind| format!("{kind}: {}", kind.suggested_action())).collect();
            self.entry(&status.to_string(), &named.join("\n.br\n"));
        }
    }

    /// Adds the examples of a page, which the tests run.
    fn examples(&mut self, of: &str) {
        let examples: Vec<&Example> = examples::of(of).collect();
        if examples.is_empty() {
            return;
        }
        self.section("EXAMPLES");
        for example in examples {
            self.text(example.about);
            self.verbatim(example.script);
        }
    }

    /// Adds references to other pages.
    fn see_also(&mut self, pages: &[&str]) {
        self.section("SEE ALSO");
        let pages: Vec<String> = pages
            .iter()
            .filter_map(|page| page.split_once('('))
            .map(|(name, section)| format!("\\fB{}\\fR({section}", escaped(name)))
            .collect();
        let _ = writeln!(self.0, "{}", pages.join(", "));
    }

    /// Returns the page.
    fn finish(self) -> Vec<u8> {
        self.0.into_bytes()
    }
}

/// Returns a description in one line.
fn in_words(what: &str) -> String {
    what.replace('\n', " ")
}

/// Returns a heading in roff syntax.
fn quoted(title: &str) -> String {
    if title.contains(' ') { format!("\"{title}\"") } else { title.to_owned() }
}

/// Escapes a text for roff: none of its characters is a command.
fn escaped(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga");
    // A line that begins with a dot is a command, except for the line break put there on purpose.
    let lines = escaped.split('\n').map(|line| {
        if line.starts_with('.') && line != ".br" { format!("\\&{line}") } else { line.to_owned() }
    });
    lines.collect::<Vec<_>>().join("\n")
}
