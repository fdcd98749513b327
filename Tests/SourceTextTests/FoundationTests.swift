import TestSupport
import Testing

/// What the compiler does not check between modules (architecture.md 3.2): which of them import Foundation.
@Suite struct FoundationTests {
    /// Modules in which no Foundation of any kind is imported. Elsewhere in `lanyard` it is FoundationEssentials at most.
    private static let fenced = ["LanyardFoundations", "LanyardRequestPath", "LanyardSettings"]
    private static let free = ["LanyardEmulator", "LanyardEmulatorTool"]

    private static func faults(in text: String, path: String) -> [String] {
        let module = String(path.split(separator: "/")[1])
        guard !free.contains(module) else { return [] }
        return SourceFiles.codeLines(of: text).compactMap { number, line in
            let words = SourceFiles.words(of: line)
            guard words.contains("import"), let imported = words.last,
                imported.hasPrefix("Foundation") || imported == "_FoundationICU",
                fenced.contains(module) || imported != "FoundationEssentials"
            else { return nil }
            return "\(path):\(number): \(module) imports \(imported)"
        }
    }

    @Test("no module of the program imports more of Foundation than it may")
    func fence() throws {
        let texts = try SourceFiles.texts(below: "Sources")
        #expect(texts.count > 200)
        #expect(texts.flatMap { Self.faults(in: $0.value, path: $0.key) } == [])
    }

    @Test(
        "a planted import is found",
        arguments: [
            ("Sources/LanyardRequestPath/A.swift", "import Foundation", true),
            ("Sources/LanyardFoundations/A.swift", "import FoundationEssentials", true),
            ("Sources/LanyardAdmin/A.swift", "@preconcurrency import Foundation", true),
            ("Sources/LanyardAdmin/A.swift", "import FoundationEssentials", false),
            ("Sources/LanyardEmulator/A.swift", "import Foundation", false),
            ("Sources/LanyardAdmin/A.swift", "// import Foundation\nimport LanyardFoundations", false),
        ])
    func planted(path: String, text: String, isFound: Bool) {
        #expect(Self.faults(in: text, path: path).isEmpty != isFound)
    }
}
