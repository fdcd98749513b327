import TestSupport
import Testing

/// A function that throws and that other modules call says in its comment what is thrown, when, and whose fault it is.
@Suite struct ThrowsCommentTests {
    private static let mark = "- Throws: "
    private static let visible: Set<String> = ["package", "public", "open"]

    private static func saysWhen(_ declaration: SourceDeclaration) -> Bool {
        declaration.comment.contains { $0.drop { $0 == " " }.hasPrefix(mark) }
    }

    /// The functions without it. One without any comment has that of the protocol that demands it.
    private static func faults(in texts: [String: String]) throws -> [String] {
        var described: Set<String> = []
        var heritage: [String: Set<String>] = [:]
        var unsaid: [(path: String, declaration: SourceDeclaration)] = []
        for (path, text) in texts {
            for declaration in try #require(SourceDeclarations.all(in: text), "\(path): a bracket without its pair") {
                if declaration.kind == .type { heritage[declaration.name, default: []].formUnion(declaration.heritage) }
                guard declaration.throwsErrors,
                    declaration.isRequirement || !declaration.modifiers.isDisjoint(with: visible)
                else { continue }
                if saysWhen(declaration) {
                    if declaration.isRequirement { described.insert(declaration.name) }
                } else {
                    unsaid.append((path, declaration))
                }
            }
        }
        return unsaid.filter { _, declaration in
            let parts = declaration.name.split(separator: ".")
            let protocols = heritage[parts.dropLast().joined(separator: ".")] ?? []
            return !declaration.comment.isEmpty
                || !protocols.contains { described.contains("\($0).\(parts.last ?? "")") }
        }.map { "\($0.path):\($0.declaration.line) \($0.declaration.name)" }.sorted()
    }

    @Test("each function that throws and that other modules call says when")
    func eachFunction() throws {
        let texts = try SourceFiles.texts(below: "Sources").filter { SourceFiles.holds($0.value, "throws") }
        #expect(try Self.faults(in: texts) == [], "add - Throws: what, when, and whose fault it is")
    }

    @Test(
        "a planted function that does not say when is found",
        arguments: [
            "struct A {\n    /// Reads.\n    package func read() throws {}\n}",
            "struct A {\n    package func read() throws(Fault) -> Int { 1 }\n}",
            "struct A {\n    /// Reads.\n    package init(\n        _ path: String\n    ) async throws {}\n}",
            "enum A {\n    /// - Returns: 1.\n    package static var one: Int { get throws { 1 } }\n}",
            "protocol A {\n    func read() throws\n}",
            "protocol R {\n    /// - Throws: its error.\n    func read() throws\n}\nstruct A {\n    public func read() throws {}\n}",
        ])
    func planted(_ text: String) throws {
        #expect(try Self.faults(in: ["a.swift": text]).count == 1)
    }

    @Test(
        "one that says when, that only other files of its module call, or that throws nothing is not",
        arguments: [
            "struct A {\n    /// Reads.\n    ///\n    /// - Throws: `empty`.\n    package func read() throws {}\n}",
            "struct A {\n    func read() throws {}\n}",
            "struct A {\n    package func read(_ body: () throws -> Void) -> () throws -> Void { body }\n}",
            "protocol R {\n    /// - Throws: its error.\n    func read() throws\n}\nstruct A: R {\n    public func read() throws {}\n}",
        ])
    func others(_ text: String) throws {
        #expect(try Self.faults(in: ["a.swift": text]) == [])
    }
}
