import TestSupport
import Testing

/// The types of the session path: what a user's session is, is written where a reader finds it.
@Suite struct SessionPartTests {
    private static let storedMax = 14
    private static let folders = ["Sources/LanyardSessions", "Sources/LanyardSessionInterface", "Sources/LanyardVault"]

    @Test("no type of the session path has more than 14 stored properties")
    func storedProperties() throws {
        var counts: [String: Int] = [:]
        for folder in Self.folders {
            for text in try SourceFiles.texts(below: folder).values {
                counts.merge(StoredProperties.counts(in: text)) { max($0, $1) }
            }
        }
        // The larger ones are seen.
        for type in ["SessionCoordinator", "SessionService", "SessionRunner", "SessionContext", "SealedStore"] {
            #expect(counts[type] ?? 0 >= 10, "\(type)")
        }
        #expect(counts.filter { $0.value > Self.storedMax } == [:])
    }

    @Test("each stored property of a planted type is counted, with a closure as its value or without")
    func planted() {
        let type = """
            final class Part {
                let one = 1
                private(set) var two: Int {
                    didSet { note() }
                }
                var computed: Int { two }
                static let shared = 3
                private lazy var three = Timer { [unowned self] in due() }
                var four: () -> Void = {}
                private struct Inner {
                    var five = 5
                }
                func work() {
                    let local = 6
                }
            }
            """
        #expect(StoredProperties.counts(in: type) == ["Part": 4, "Inner": 1])
        let properties = (1...15).map { "    var p\($0): Int\n" }.joined()
        #expect(StoredProperties.counts(in: "struct Large {\n\(properties)}\n") == ["Large": 15])
    }
}
