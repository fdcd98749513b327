import TestSupport

/// Paths made of what readers disagree about; the same in every run.
struct SeededPath {
    private static let pieces = [
        "/", "/", "/", "a", "b", "api", "admin", ".", "..", "%2e", "%2E", "%2f", "%5c", "\\", ";", ";x=1", "%25",
        "%252e", "%252f", "%61", "//",
    ]
    private var random = SeededGenerator(31)

    mutating func path() -> String {
        "/"
            + (0..<Int.random(in: 0...8, using: &random)).map { _ in Self.pieces.randomElement(using: &random)! }
            .joined()
    }
}
