import TestSupport
import Testing

/// A client's connection, its exchange and their parts: a new property is written where a reader finds it.
@Suite struct ConnectionPartTests {
    private static let storedMax = 12
    private static let requestPath = "Sources/LanyardRequestPath"

    /// Connection, exchange, their parts, and what they hold: the state machines, the readers, both ends' streams and their TLS.
    private static func partTexts() throws -> [String: String] {
        var texts: [String: String] = [:]
        let folders = [
            "Clients", "Exchange/Client", "Exchange/Replay", "Exchange/Tunnel", "Exchange/Messages", "Reading",
            "Buffers", "Streams", "TLS",
        ]
        for folder in folders {
            texts.merge(try SourceFiles.texts(below: "\(requestPath)/\(folder)")) { first, _ in first }
        }
        let path = "\(requestPath)/Forwarding/UpstreamConnection.swift"
        texts[path] = try SourceFiles.text(of: path)
        return texts
    }

    @Test("connection, exchange and each of their parts have at most 12 stored properties")
    func storedProperties() throws {
        var counts: [String: Int] = [:]
        for text in try Self.partTexts().values { counts.merge(StoredProperties.counts(in: text)) { max($0, $1) } }
        let held = ["ClientExchange", "ByteStream", "TLSSession", "UpstreamConnection", "TunnelRelay"]
        #expect(held.allSatisfy { counts[$0] ?? 0 > 8 } && counts["ExchangeWaits"] ?? 0 > 4, "\(counts)")
        #expect(counts.filter { $0.value > Self.storedMax } == [:])
    }

    @Test("each stored property of a planted type is counted")
    func planted() {
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
