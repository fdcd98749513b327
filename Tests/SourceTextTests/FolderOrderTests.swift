import TestSupport
import Testing

/// The request path is one module, because it shares the hot path. Its folders use each other in one direction only (architecture.md 3.2).
@Suite struct FolderOrderTests {
    /// Each folder uses those before it. Listening comes last: the acceptor hands connections to shards.
    private static let order = [
        "Buffers", "TLS", "Streams", "Reading", "HTTP2", "Routing", "Tokens", "Forwarding",
        "Exchange/Records", "Exchange/Problems", "Exchange/Serving", "Exchange/Messages", "Exchange/Replay",
        "Exchange/Tunnel", "Exchange/Client", "Clients", "Listening",
    ]
    private static let module = "Sources/LanyardRequestPath"
    /// The way back from an exchange to its connection and its stream.
    private static let exception = (
        file: "Exchange/Client/ClientSink.swift", types: ["ClientConnection", "ClientStream"] as Set<Substring>
    )

    /// The place of a file's folder in the order; files beside the folders know them all.
    private static func place(of path: String) -> Int? {
        let folder = path.dropFirst(module.count + 1).split(separator: "/").dropLast().joined(separator: "/")
        return folder.isEmpty ? order.count : order.firstIndex(of: folder)
    }

    /// Types that files declare, and uses of them in earlier folders.
    private static func faults(in texts: [String: String]) -> [String] {
        var places: [Substring: Int] = [:]
        var faults: [String] = []
        for (path, text) in texts {
            guard let place = place(of: path) else {
                faults.append("\(path): no such folder")
                continue
            }
            let kinds: Set<Substring> = ["struct", "class", "enum", "protocol", "typealias"]
            for (_, line) in SourceFiles.codeLines(of: text) where line.first?.isLetter == true {
                let words = SourceFiles.words(of: line)
                guard let kind = words.firstIndex(where: kinds.contains), kind + 1 < words.count else { continue }
                places[words[kind + 1]] = place
            }
        }
        for (path, text) in texts.sorted(by: { $0.key < $1.key }) {
            guard let place = place(of: path) else { continue }
            for (number, line) in SourceFiles.codeLines(of: text) {
                for word in SourceFiles.words(of: line) {
                    guard let declared = places[word], declared > place,
                        !path.hasSuffix(exception.file) || !exception.types.contains(word)
                    else { continue }
                    faults.append("\(path):\(number): \(word) is of a later folder")
                }
            }
        }
        return faults
    }

    @Test("folders of the request path use earlier ones only")
    func order() throws {
        let texts = try SourceFiles.texts(below: Self.module)
        #expect(texts.count > 50)
        #expect(Self.faults(in: texts) == [])
    }

    @Test("a planted use of a later folder is found, one of an earlier folder is not")
    func planted() {
        let texts = [
            "\(Self.module)/Reading/A.swift": "struct A {\n    let b: B?\n}",
            "\(Self.module)/Exchange/Replay/B.swift": "final class B {}",
            "\(Self.module)/C.swift": "enum C { case b(B), a(A) }",
            "\(Self.module)/Exchange/Tunnel/D.swift": "struct D { let a: A, b: B }",
            "\(Self.module)/Exchange/Records/E.swift": "struct E { let b: B }",
        ]
        #expect(
            Self.faults(in: texts) == [
                "\(Self.module)/Exchange/Records/E.swift:1: B is of a later folder",
                "\(Self.module)/Reading/A.swift:2: B is of a later folder",
            ])
        #expect(
            Self.faults(in: ["\(Self.module)/Cellar/A.swift": ""]) == ["\(Self.module)/Cellar/A.swift: no such folder"])
    }
}
