import Testing

/// How scripts and pages build the programs.
@Suite struct BuildCommandTests {
    @Test("an optimised build names its product: support of the tests has no optimised build")
    func products() throws {
        var texts = try SourceFiles.texts(below: "docs", [".md"])
        for path in ["README.md", "deploy/run", "deploy/package", "deploy/cold-start"] {
            texts[path] = try SourceFiles.text(of: path)
        }
        let builds = texts.flatMap { path, text in
            text.split(separator: "\n").filter { SourceFiles.holds(String($0), "swift build -c release") }.map {
                (path, $0)
            }
        }
        #expect(builds.contains { $0.0 == "deploy/run" })
        for (path, line) in builds {
            #expect(line.contains("--product") || line.contains("--show-bin-path"), "\(path): \(line)")
        }
    }
}
