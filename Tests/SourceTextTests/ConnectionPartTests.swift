import TestSupport
import Testing

/// A client's connection and its parts: a new wait, state or property is written where a reader finds it.
@Suite struct ConnectionPartTests {
    private static let storedMax = 12
    private static let requestPath = "Sources/LanyardRequestPath"
    private static let exchange = "\(requestPath)/Exchange"

    /// The connection, its parts, and what they hold: the state machines, the readers, both ends' streams and their TLS.
    private static func partTexts() throws -> [String: String] {
        var texts: [String: String] = [:]
        let folders = [
            "Exchange/Client", "Exchange/Replay", "Exchange/Tunnel", "Exchange/Messages", "Reading", "Buffers",
            "Streams", "TLS",
        ]
        for folder in folders {
            texts.merge(try SourceFiles.texts(below: "\(requestPath)/\(folder)")) { first, _ in first }
        }
        for path in ["\(exchange)/Exchange.swift", "\(requestPath)/Forwarding/UpstreamConnection.swift"] {
            texts[path] = try SourceFiles.text(of: path)
        }
        return texts
    }

    /// Lines that end a switch for cases that nobody has thought of.
    private static func defaults(in texts: [String: String]) -> [String] {
        texts.sorted { $0.key < $1.key }.flatMap { path, text in
            SourceFiles.codeLines(of: text).filter { $0.text.drop { $0 == " " }.hasPrefix("default:") }
                .map { "\(path):\($0.number)" }
        }
    }

    @Test("no switch in the client's connection has a default: a new wait or state is decided about everywhere")
    func exhaustiveSwitches() throws {
        let texts = try SourceFiles.texts(below: "\(Self.exchange)/Client")
        #expect(texts.count >= 10)
        #expect(Self.defaults(in: texts) == [])
    }

    @Test("the connection and each of its parts have at most 12 stored properties")
    func storedProperties() throws {
        var counts: [String: Int] = [:]
        for text in try Self.partTexts().values { counts.merge(StoredProperties.counts(in: text)) { max($0, $1) } }
        let held = ["ClientConnection", "ByteStream", "TLSSession", "UpstreamConnection", "TunnelRelay"]
        #expect(held.allSatisfy { counts[$0] ?? 0 > 8 } && counts["ClientWaits"] ?? 0 > 4, "\(counts)")
        #expect(counts.filter { $0.value > Self.storedMax } == [:])
    }

    @Test("a planted default is found, and each stored property of a planted type is counted")
    func planted() {
        let switching = "func due() {\n    switch wait {\n    case .idle: close()\n    default: break\n    }\n}"
        #expect(Self.defaults(in: ["A.swift": switching]) == ["A.swift:4"])
        let type = """
            struct Part: ~Copyable {
                let one = 1
                private(set) var two: Int {
                    didSet { note() }
                }
                var computed: Int { two }
                static let shared = 3
                private struct Inner {
                    var three = 3
                }
                private var four: Inner?
                func work() {
                    let local = 5
                }
            }
            """
        #expect(StoredProperties.counts(in: type) == ["Part": 3, "Inner": 1])
    }
}
