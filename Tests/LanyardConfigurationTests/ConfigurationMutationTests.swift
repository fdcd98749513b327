import TestSupport
import Testing

@testable import LanyardConfiguration

/// Whatever a file holds, loading ends with settings or with faults; it never traps and never takes long.
@Suite struct ConfigurationMutationTests {
    /// SplitMix64: the same documents in each run.
    private struct Generator: RandomNumberGenerator {
        var state: UInt64
        mutating func next() -> UInt64 {
            state &+= 0x9e37_79b9_7f4a_7c15
            var z = state
            z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
            z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
            return z ^ (z >> 31)
        }
    }

    private static let pieces = [
        "{", "}", "[", "]", ": ", "- ", "&a ", "*a", "!!str ", "\n", "  ", "'", "\"", "\\", "#", "%", "|\n", ">-\n",
        "? ", "---\n",
        "9223372036854775808", "-1", "0s", "99999999999d", "9999999TiB", "none", "off", "true", "~", "", "\"\\0\"",
        "\u{0}", "\t",
        "é", "\u{FEFF}",
        "http://[", "http://u:p@h", "unix:", "systemd:x", "[::]:0", "{token}", "<<: ", "routes:\n", "listeners:\n",
        "0-0%", "\r",
    ]

    private func mutate(_ text: [UInt8], _ generator: inout Generator) -> [UInt8] {
        var text = text
        for _ in 0..<Int.random(in: 1...4, using: &generator) {
            let place = Int.random(in: 0...text.count, using: &generator)
            switch Int.random(in: 0..<5, using: &generator) {
            case 0: text.insert(contentsOf: Self.pieces.randomElement(using: &generator)!.utf8, at: place)
            case 1: text.removeSubrange(place..<min(text.count, place + Int.random(in: 0...12, using: &generator)))
            case 2: if place < text.count { text[place] = UInt8.random(in: 0...255, using: &generator) }
            case 3:
                let end = min(text.count, place + Int.random(in: 0...60, using: &generator))
                text.insert(contentsOf: text[place..<end], at: Int.random(in: 0...text.count, using: &generator))
            default:
                let end = text[place...].firstIndex { $0 == 10 || $0 == 44 } ?? text.count
                let colon = text[place..<end].firstIndex(of: 58) ?? place
                text.replaceSubrange(
                    colon..<end, with: Array(": ".utf8) + Self.pieces.randomElement(using: &generator)!.utf8)
            }
        }
        return text
    }

    /// What is wrong with what was made of a document, in words.
    private func diagnostics(of loaded: LoadedConfiguration, _ text: [UInt8]) -> [String] {
        var wrong: [String] = []
        let hasFault = loaded.diagnostics.contains { $0.severity != .warning }
        if (loaded.configuration == nil) != hasFault {
            wrong.append("no settings without a fault, and none besides one")
        }
        // YAML's line breaks are more than LF (YAML 1.1 §4.1.4); a text that is not UTF-8 is no YAML yet.
        let whole = String(decoding: text, as: UTF8.self)
        let readings = [
            whole.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).map(\.unicodeScalars.count),
            text.split(separator: 10, omittingEmptySubsequences: false).map(\.count),
        ]
        for error in loaded.diagnostics {
            if error.severity == .usage || error.message.isEmpty || error.remedy.isEmpty {
                wrong.append("an empty fault")
            }
            if "\(error)".utf8.contains(where: { $0 < 32 || $0 == 127 }) {
                wrong.append("a fault with control characters")
            }
            switch error.place {
            case .file("f", let line, let column):
                let isInside = readings.contains { lengths in
                    1...lengths.count + 1 ~= line && column >= 1
                        && column <= (line <= lengths.count ? lengths[line - 1] : 0) + 2
                }
                if !isInside { wrong.append("a fault beyond the text: \(error)") }
            case .wholeFile("f"): break
            default: wrong.append("a fault elsewhere: \(error)")
            }
        }
        guard let configuration = loaded.configuration else { return wrong }
        let again = ConfigurationLoader.load(Array(loaded.printed.utf8), path: "f")
        if again.configuration != configuration { wrong.append("what is printed means something else") }
        return wrong
    }

    @Test("damaged documents end in settings that print as themselves, or in faults that lie in the text")
    func damaged() { check(count: 250) }

    func check(count: Int) {
        var generator = Generator(state: 4)
        // Without the files that must be there: what changes the verdict is the damage.
        let lines = ConfigurationTests.full.split(separator: "\n").filter { !$0.contains("ca_file") }
        let original = Array((lines.joined(separator: "\n") + "\nstore: {memory: true}\nadmin: off\n").utf8)
        var (sound, faulty) = (0, 0)
        for _ in 0..<count {
            let text = mutate(original, &generator)
            let loaded = ConfigurationLoader.load(text, path: "f")
            if loaded.configuration == nil { faulty += 1 } else { sound += 1 }
            let wrong = diagnostics(of: loaded, text)
            #expect(wrong == [], "\(String(decoding: text, as: UTF8.self))")
            #expect(loaded.diagnostics.count < 300)
        }
        #expect(faulty > count * 2 / 5 && sound > count / 125, "\(faulty) faulty, \(sound) sound")
    }

    @Test("a file of endless unknown keys is refused in few words")
    func endless() { #expect(Self.faultsOfUnknownKeys(60_000) < 200) }

    static func faultsOfUnknownKeys(_ count: Int) -> Int {
        let text = (0..<count).map { "k\($0): x\n" }.joined()
        return ConfigurationLoader.load(Array(text.utf8), path: "f").diagnostics.count
    }
}

@Suite struct LongConfigurationMutationTests {
    @Test("thousands of damaged documents end in settings that print as themselves, or in faults that lie in the text")
    func damaged() { ConfigurationMutationTests().check(count: LongSize.of(25_000, least: 2500)) }

    @Test("four times as many unknown keys take less than eight times the CPU")
    func growth() {
        func cost(_ count: Int) -> Duration {
            // What else the machine does only adds.
            (0..<3).map { _ in
                let start = ProcessorTime.usedByThread
                #expect(ConfigurationMutationTests.faultsOfUnknownKeys(count) < 200)
                return ProcessorTime.usedByThread - start
            }.min() ?? .zero
        }
        let (few, many) = (cost(15_000), cost(60_000))
        #expect(many < few * 8, "\(few) and \(many)")
    }
}
