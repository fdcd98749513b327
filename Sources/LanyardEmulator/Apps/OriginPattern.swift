/// An entry of `allowed_request_origins`: an origin (RFC 6454 §6.2) in which `*` stands for any run of characters.
struct OriginPattern: Equatable, Sendable {
    /// The parts between the stars, in lower case.
    private let parts: [Substring]

    init(_ text: String) {
        parts = text.lowercased().split(separator: "*", omittingEmptySubsequences: false)
    }

    /// Whether this is `scheme://host[:port]`, or a star alone.
    static func isValid(_ text: String) -> Bool {
        if text == "*" { return true }
        guard let scheme = ["https://", "http://"].first(where: { text.lowercased().hasPrefix($0) }) else {
            return false
        }
        let host = text.dropFirst(scheme.count)
        return !host.isEmpty && !host.contains { "/?#@ ".contains($0) }
    }

    func matches(_ origin: String) -> Bool {
        var rest = origin.lowercased()[...]
        guard let first = parts.first, let last = parts.last, rest.hasPrefix(first) else { return false }
        guard parts.count > 1 else { return rest == first }
        rest.removeFirst(first.count)
        guard rest.count >= last.count, rest.hasSuffix(last) else { return false }
        rest.removeLast(last.count)
        for part in parts.dropFirst().dropLast() where !part.isEmpty {
            guard let range = rest.firstRange(of: part) else { return false }
            rest = rest[range.upperBound...]
        }
        return true
    }
}
