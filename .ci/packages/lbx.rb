# The formula of Homebrew; .ci/packages/pack puts in addresses and sums.
class Lbx < Formula
  desc "File tools for coding agents: gated, atomic, undoable, visible"
  homepage "@URL@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

@ARCHIVES@

  def install
    bin.install "lbx"
    man1.install Dir["man/*.1"]
    man5.install Dir["man/*.5"]
    man7.install Dir["man/*.7"]
    bash_completion.install "completions/lbx.bash" => "lbx"
    zsh_completion.install "completions/_lbx"
    fish_completion.install "completions/lbx.fish"
  end

  test do
    (testpath/"a.txt").write "one\n"
    system bin/"lbx", "--workspace", testpath, "read", "a.txt"
    system bin/"lbx", "--workspace", testpath, "edit", "a.txt", "--old-string", "one", "--new-string", "two"
    assert_equal "two\n", (testpath/"a.txt").read
  end
end
