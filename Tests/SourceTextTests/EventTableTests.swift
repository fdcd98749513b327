import LanyardSessions
import TestSupport
import Testing

/// The log events of docs/use/log-events.md against the program: no event is missing, and none is left over.
@Suite struct EventTableTests {
    /// The first cell of each row, in its order.
    private static func listed() throws -> [String] {
        try SourceFiles.text(of: "docs/use/log-events.md").split(separator: "\n")
            .compactMap { $0.prefixMatch(of: #/\| `([a-z_.]+)` \| [a-z, ]+ \| .+ \|$/#)?.1 }.map(String.init)
    }

    /// What follows the key `event` in a piece of source, with the names that it stands for.
    private static func names(of value: Substring) -> [String]? {
        if let literal = value.prefixMatch(of: #/"([a-z_.]+)"/#) { return [String(literal.1)] }
        // Health and admin share their listener.
        if let shared = value.prefixMatch(of: #/"\\\(profile\.name\)\.([a-z_]+)"/#) {
            return ["admin.\(shared.1)", "health.\(shared.1)"]
        }
        if value.hasPrefix(".string(logEvent.name)") {
            return SessionLogEvent.Event.allCases.map { SessionLogEvent($0, reason: "").name }
        }
        return nil
    }

    /// The names of all events that the sources write.
    private static func written() throws -> Set<String> {
        var names: Set<String> = []
        for (path, text) in try SourceFiles.texts(below: "Sources") where !path.contains("Emulator") {
            for match in text.matches(of: #/"event": ?(.{0,60})/#) {
                let found = Self.names(of: match.1)
                #expect(found != nil, "\(path): no name can be read from \(match.0)")
                names.formUnion(found ?? [])
            }
            // The access log writes its bytes itself.
            for match in text.matches(of: #/\\"event\\":\\"([a-z.]+)\\"|event=([a-z.]+) /#) {
                names.insert(String(match.1 ?? match.2 ?? ""))
            }
        }
        return names
    }

    @Test("every event of the program is on the page once, and the page has no other")
    func complete() throws {
        let (listed, written) = (try Self.listed(), try Self.written())
        #expect(written.subtracting(listed).sorted() == [], "missing on the page")
        #expect(Set(listed).subtracting(written).sorted() == [], "not in the program")
        #expect(listed.count == Set(listed).count && listed.count > 80)
    }

    @Test("the levels of the table are those of the log")
    func levels() throws {
        let levels: Set<Substring> = ["debug", "info", "notice", "warning", "error", "critical"]
        let page = try SourceFiles.text(of: "docs/use/log-events.md")
        for line in page.split(separator: "\n") where line.hasPrefix("| `") {
            let cell = line.split(separator: "|")[1].split { $0 == " " || $0 == "," }
            #expect(!cell.isEmpty && levels.isSuperset(of: cell), "\(line)")
        }
    }
}
