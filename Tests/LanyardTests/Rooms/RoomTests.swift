import Foundation
import TestSupport
import Testing

@Suite struct RoomTests {
    @Test("rooms use each other only as the table says")
    func rooms() throws {
        let files = try Self.files()
        #expect(files.count > 30)
        #expect(Library(files).violations == [])
    }

    @Test(
        "a planted violation is found",
        arguments: [
            ("Foundations", "struct A { let b: Session.Step }", "Foundations mentions Session of Sessions"),
            (
                "Reading", "enum A { static func b() { print(\"\\(Fault.x) \\(Session())\") } }",
                "Reading mentions Session of Sessions"
            ),
            ("Identity", "final class A { var b: Session? }", "Identity mentions Session of Sessions"),
            ("Configuration", "extension Session {}", "Configuration mentions Session of Sessions"),
            ("Admin", "struct A { let b = Lanyard.Transfer() }", "Admin mentions Transfer of Identity"),
            ("Listening", "import Foundation\nstruct A {}", "Listening imports Foundation"),
            ("Sessions", "import Foundation\nstruct A {}", "Sessions imports Foundation"),
            ("Exchange", "import FoundationEssentials", "Exchange imports FoundationEssentials"),
            ("Admin", "import CLanyard.Curl", "Admin opens CLanyard.Curl"),
            ("Reading", "func free() {}", "func outside a type"),
            ("Reading", "private let free = 1", "let outside a type"),
            ("Cellar", "struct A {}", "no such room: Cellar"),
            ("Reading", "struct Fault {}", "Fault is declared twice"),
            ("Reading", "struct A {", "brackets do not close, so the file was misread"),
        ])
    func planted(room: String, source: String, expected: String) {
        let planted = Library.File(room: room, path: "planted.swift", source: source)
        let violations = Library(Self.small + [planted]).violations
        #expect(violations.count == 1)
        #expect(violations.first?.hasSuffix(expected) == true, "\(violations)")
    }

    @Test(
        "what the table allows is no violation",
        arguments: [
            (
                "Reading",
                "// Session\n/* Session /* nested Session */ Session */ struct A { let b = \"Session \\\" Session\" }"
            ),
            (
                "Reading",
                "struct A { let b = #\"Session \" \\ Session\"#; let c = \"\"\"\n  Session \"quoted\" Session\n  \"\"\" }"
            ),
            ("Reading", "struct A { struct Session {}; let b = Session() }"),
            ("Reading", "struct A { let b = C.Session; func c() -> Fault { .x } }"),
            ("Identity", "final class A: IdentityService { func b() -> Grant { Grant(fault: Fault()) } }"),
            ("Configuration", "struct Configuration { var a = RefreshSettings() }"),
            ("Admin", "import FoundationEssentials\nstruct A { let b: Session }"),
        ])
    func allowed(room: String, source: String) {
        let planted = Library.File(room: room, path: "planted.swift", source: source)
        #expect(Library(Self.small + [planted]).violations == [])
    }

    /// A library of a few files with one type each.
    private static let small = [
        Library.File(room: "Foundations", path: "Fault.swift", source: "struct Fault { static let x = Fault() }"),
        Library.File(room: "Sessions", path: "Session.swift", source: "struct Session { enum Step { case x } }"),
        Library.File(room: "Sessions", path: "Grant.swift", source: "struct Grant { var fault: Fault }"),
        Library.File(
            room: "Sessions", path: "IdentityService.swift", source: "protocol IdentityService { func b() -> Grant }"),
        Library.File(room: "Sessions", path: "RefreshSettings.swift", source: "struct RefreshSettings {}"),
        Library.File(room: "Identity", path: "Transfer.swift", source: "struct Transfer {}"),
    ]

    private static func files() throws -> [Library.File] {
        let root = Products.root + "/Sources/Lanyard"
        let paths = try FileManager.default.subpathsOfDirectory(atPath: root).filter { $0.hasSuffix(".swift") }
        return try paths.sorted().map { path in
            let parts = path.split(separator: "/")
            return Library.File(
                room: parts.count > 1 ? String(parts[0]) : nil, path: "Sources/Lanyard/\(path)",
                source: try String(contentsOfFile: "\(root)/\(path)", encoding: .utf8))
        }
    }
}
