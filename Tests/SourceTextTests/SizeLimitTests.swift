import TestSupport
import Testing

/// Types, functions and files of the product that a reader can take in at once. What is larger stands in `SizeExceptions` with its size:
/// that list only gets shorter.
@Suite struct SizeLimitTests {
    private static let storedMax = 14
    /// Of what lives as long as a connection.
    private static let storedMaxOfConnections = 12
    private static let functionLinesMax = 60
    private static let fileLinesMax = 400

    private static let requestPath = "Sources/LanyardRequestPath"
    /// The exchange, and what a connection holds: readers, both ends' streams and their TLS.
    private static let ofConnections = [
        "Clients/", "Exchange/", "Reading/", "Buffers/", "Streams/", "TLS/", "Forwarding/UpstreamConnection.swift",
    ].map { "\(requestPath)/\($0)" }

    /// Something that has a size.
    private struct Item {
        let name: String
        let size: Int
        let max: Int
    }

    /// The types, functions and files of these texts. A name begins with the module, so that it is the only one.
    private struct Items {
        private(set) var types: [Item] = []
        private(set) var functions: [Item] = []
        private(set) var files: [Item] = []

        init(_ texts: [String: String]) throws {
            for (path, text) in texts {
                let parts = path.split(separator: "/").dropFirst()
                files.append(
                    Item(
                        name: parts.joined(separator: "/"), size: text.utf8.count(where: { $0 == UInt8(ascii: "\n") }),
                        max: SizeLimitTests.fileLinesMax))
                guard path.hasSuffix(".swift") else { continue }
                let isOfConnection = SizeLimitTests.ofConnections.contains(where: path.hasPrefix)
                let max = isOfConnection ? SizeLimitTests.storedMaxOfConnections : SizeLimitTests.storedMax
                let declarations = try #require(SourceDeclarations.all(in: text), "\(path): a bracket without its pair")
                for declaration in declarations {
                    let name = "\(parts.first ?? "").\(declaration.name)"
                    switch declaration.kind {
                    case .type: types.append(Item(name: name, size: declaration.storedProperties, max: max))
                    case .function, .property:
                        functions.append(
                            Item(name: name, size: declaration.lineCount, max: SizeLimitTests.functionLinesMax))
                    }
                }
            }
        }
    }

    /// What is too large and not listed, or listed with another size. Of several items with a name the largest counts.
    private static func faults(_ items: [Item], _ listed: [String: Int]) -> [String] {
        var sizes: [String: Int] = [:]
        var faults: [String] = []
        for item in items where item.size > item.max { sizes[item.name] = max(sizes[item.name] ?? 0, item.size) }
        for (name, size) in sizes {
            switch listed[name] {
            case size?: break
            case nil: faults.append("\(name) has \(size): make it smaller")
            case let known? where known < size:
                faults.append("\(name) has \(size), more than the \(known) of its entry")
            case .some: faults.append("\(name) has \(size): lower its entry")
            }
        }
        for name in listed.keys where sizes[name] == nil { faults.append("\(name) is small enough: remove its entry") }
        return faults.sorted()
    }

    private static func productItems() throws -> Items {
        try Items(SourceFiles.texts(below: "Sources", [".swift", ".c", ".h"]))
    }

    @Test("no type has too many stored properties, no function and no file too many lines, except for the listed ones")
    func limits() throws {
        let items = try Self.productItems()
        #expect(items.types.count > 900 && items.functions.count > 3000 && items.files.count > 500)
        #expect(Self.faults(items.types, SizeExceptions.types) == [], "stored properties")
        #expect(Self.faults(items.functions, SizeExceptions.functions) == [], "lines of functions")
        #expect(Self.faults(items.files, SizeExceptions.files) == [], "lines of files")
        // The parts of connections and of sessions are seen.
        let known = [
            "RequestPath.ClientConnection", "RequestPath.ClientExchange", "RequestPath.ExchangeWaits",
            "RequestPath.ByteStream", "RequestPath.TLSSession", "Vault.SealedStore",
            "RequestPath.UpstreamConnection", "Sessions.SessionCoordinator", "Sessions.SessionContext",
        ]
        let seen = Set(items.types.filter { $0.size > 4 }.map(\.name))
        #expect(known.filter { !seen.contains("Lanyard\($0)") } == [])
    }

    // MARK: Planted

    @Test("each stored property of a planted type is counted, whatever its form")
    func storedProperties() throws {
        let type = """
            final class Part: Base<Int>,
                Sendable
            {
                let one = 1
                private(set) var two: Int {
                    didSet { note() }
                }
                var three: Int { willSet { note() } }
                var computed: Int { two }
                var read: [String: Int] {
                    get { [:] }
                    set { use(newValue) }
                }
                static let shared = 3
                private lazy var four = Timer { [unowned self] in due() }
                var five: () -> Void = {}
                @Option(name: "six, seven") var six: Int?
                let seven: Int, eight: [Int: Int], nine: Pair<Int, Int>
                let ten =
                    shared.value
                    .other(a, b)
                #if DEBUG
                var eleven: (Int, Int) = (1, 2)
                #endif
                private struct Inner { var one: Int, two = "}" }
                enum Kind { case type(a: Int, b: Int), other }
                func work() {
                    let local = 5, other = "\\(text("}", 1))"
                    struct Local { let one: Int }
                    switch local { case let value: use(value) }
                }
            }
            extension Part {
                var twelve: Int { 12 }
                struct Later { unowned(unsafe) let part: Part }
            }
            """
        let found = try #require(SourceDeclarations.all(in: type)).filter { $0.kind == .type }
        let counts = Dictionary(uniqueKeysWithValues: found.map { ($0.name, $0.storedProperties) })
        #expect(
            counts == [
                "Part": 11, "Part.Inner": 2, "Part.Kind": 0, "Part.work.Local": 1, "Part.Later": 1,
            ])
    }

    @Test("a function counts from its keyword to its closing brace")
    func functionLines() throws {
        let text = """
            protocol Reader { func read() throws -> Int }
            struct Part {
                /// Reads.
                @inlinable
                func read(
                    _ bytes: [UInt8] = { [] }()
                ) -> Int {
                    let text = #"
                        } "#
                    func inner() {
                    }
                    return 1
                }
                init?() { return nil }
                static func == (a: Part, b: Part) -> Bool { true }
                var value: Int {
                    1
                }
            }
            """
        let found = try #require(SourceDeclarations.all(in: text)).filter { $0.kind != .type }
        #expect(
            found.map { "\($0.name) \($0.line) \($0.lineCount)" } == [
                "Reader.read 1 0", "Part.read 5 9", "Part.read.inner 10 2", "Part.init 14 1", "Part.== 15 1",
                "Part.value 16 3",
            ])
        #expect(SourceDeclarations.all(in: "struct Part { func read() { }") == nil)
    }

    /// What `SizeLimitTests` says of a type with this number of stored properties.
    private static func faults(properties: Int, _ path: String, listed: [String: Int]) throws -> [String] {
        let lines = (0..<properties).map { "    var p\($0): Int\n" }.joined()
        return faults(try Items([path: "struct Large {\n\(lines)}\n"]).types, listed)
    }

    @Test("a type above its limit is found, in the exchange above a lower one")
    func largeType() throws {
        let (sessions, exchange) = ("Sources/LanyardSessions/Large.swift", "\(Self.requestPath)/Exchange/Large.swift")
        #expect(try Self.faults(properties: 14, sessions, listed: [:]) == [])
        #expect(
            try Self.faults(properties: 15, sessions, listed: [:]) == ["LanyardSessions.Large has 15: make it smaller"])
        #expect(try Self.faults(properties: 12, exchange, listed: [:]) == [])
        #expect(
            try Self.faults(properties: 13, exchange, listed: [:]) == [
                "LanyardRequestPath.Large has 13: make it smaller"
            ])
    }

    @Test("an entry that is too low, too high or not needed is found")
    func entries() throws {
        let (path, name) = ("Sources/LanyardSessions/Large.swift", "LanyardSessions.Large")
        #expect(try Self.faults(properties: 20, path, listed: [name: 20]) == [])
        #expect(
            try Self.faults(properties: 21, path, listed: [name: 20]) == [
                "\(name) has 21, more than the 20 of its entry"
            ])
        #expect(try Self.faults(properties: 19, path, listed: [name: 20]) == ["\(name) has 19: lower its entry"])
        #expect(
            try Self.faults(properties: 14, path, listed: [name: 20]) == ["\(name) is small enough: remove its entry"])
    }

    @Test("a function and a file above their limits are found")
    func largeFunctionAndFile() throws {
        let path = "Sources/LanyardSessions/Large.swift"
        let text = "func work() {\n" + String(repeating: "    use()\n", count: 59) + "}\n"
        let items = try Items([path: text + String(repeating: "\n", count: 340)])
        #expect(Self.faults(items.functions, [:]) == ["LanyardSessions.work has 61: make it smaller"])
        #expect(Self.faults(items.files, [:]) == ["LanyardSessions/Large.swift has 401: make it smaller"])
    }
}
