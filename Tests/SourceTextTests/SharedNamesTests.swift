import TestSupport
import Testing

/// Names of C types that both Glibc's module and `CLinux` declare, since both include <sys/socket.h>, <time.h> and
/// their like. The compiler sees such a name as belonging to the module that it loaded first, which depends on the
/// other files that it compiles in the same go: a file that imports Glibc only builds today, and "cannot find
/// 'SOCK_STREAM' in scope" once a file was added elsewhere.
@Suite struct SharedNamesTests {
    @Test("a file that names what both Glibc and CLinux declare imports both")
    func shared() throws {
        var seen = 0
        for (path, source) in try ["Sources", "Tests"].flatMap({ try SourceFiles.texts(below: $0) })
        where !path.hasSuffix("/SharedNamesTests.swift") {
            guard let name = Self.sharedName(in: source) else { continue }
            seen += 1
            #expect(source.contains(/(?m)^import CLinux$/), "\(path) names \(name): import CLinux")
        }
        #expect(seen > 10)
    }

    @Test(
        "such names are found, and their lookalikes are not",
        arguments: [
            ("let kind = CInt(SOCK_STREAM.rawValue)", "SOCK_STREAM"), ("var now = timespec()", "timespec"),
            ("var address = sockaddr_in()", nil), ("let list: [iovec]", "iovec"), ("// a timespec is two numbers", nil),
        ] as [(String, String?)])
    func names(source: String, expected: String?) {
        #expect(Self.sharedName(in: source) == expected)
    }

    /// The first shared name outside comments.
    private static func sharedName(in source: String) -> String? {
        let names = /\b(SOCK_[A-Z]+|timespec|timeval|iovec|msghdr|sockaddr|sigset_t)\b/.wordBoundaryKind(.simple)
        for line in source.split(separator: "\n") where !line.drop(while: { $0 == " " }).hasPrefix("//") {
            if let match = line.firstMatch(of: names) { return String(match.1) }
        }
        return nil
    }
}
