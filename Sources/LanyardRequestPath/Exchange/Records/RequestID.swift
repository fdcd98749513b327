import LanyardFoundations

/// A request's id: 16 hex digits, unique in this process and hard to guess. It is in the log, in problem responses, and in the route's
/// `request_id_header`.
struct RequestID: CustomStringConvertible {
    let number: UInt64

    init(_ number: UInt64) { self.number = number }

    var description: String { Hex.text(number, count: 16) }
}
