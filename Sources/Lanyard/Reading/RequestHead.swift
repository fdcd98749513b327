/// The content of a request's head: the start line and the fields that frame and route the message.
///
/// Offsets count from the first byte of the head's buffer. The field lines are in the `FieldTable` that the reader
/// filled.
package struct RequestHead: Equatable, Sendable {
    package var method: Range<Int> = 0..<0
    package var kind = Method.other
    package var target: Range<Int> = 0..<0
    /// 0 or 1; 1.2 to 1.9 count as 1.
    package var minorVersion = 1
    package var framing = BodyFraming.none
    package var connection = ConnectionOptions()
    /// The index of the `Host` line in the table, or -1.
    package var host = -1
    package var expectation = Expectation.none
    /// Bytes of the head, the empty line included.
    package var length = 0
    /// Which fields the field rules must look for.
    package var traits: Traits = []

    package init() {}

    /// Methods that are treated differently; `preface` is HTTP/2's `PRI`.
    package enum Method: Sendable {
        case get, head, post, put, delete, options, patch, connect, trace, preface, other

        /// The method is idempotent (RFC 9110 §9.2.2).
        package var isIdempotent: Bool {
            switch self {
            case .get, .head, .put, .delete, .options: true
            default: false
            }
        }

        static func of(_ name: Bytes) -> Method {
            func spells(_ word: StaticString) -> Bool {
                name.count == word.utf8CodeUnitCount
                    && name.elementsEqual(Bytes(start: word.utf8Start, count: word.utf8CodeUnitCount))
            }
            return switch name.count {
            case 3: spells("GET") ? .get : spells("PUT") ? .put : spells("PRI") ? .preface : .other
            case 4: spells("POST") ? .post : spells("HEAD") ? .head : .other
            case 5: spells("PATCH") ? .patch : spells("TRACE") ? .trace : .other
            case 6: spells("DELETE") ? .delete : .other
            case 7: spells("OPTIONS") ? .options : spells("CONNECT") ? .connect : .other
            default: .other
            }
        }
    }

    /// `Expect` (http-rules.md 11.1, 11.4).
    package enum Expectation: Sendable { case none, continue100, unknown }

    /// Fields that the head has.
    package struct Traits: OptionSet, Sendable {
        package let rawValue: UInt16
        package init(rawValue: UInt16) { self.rawValue = rawValue }
        package static let origin = Traits(rawValue: 1)
        package static let secFetchSite = Traits(rawValue: 2)
        package static let maxForwards = Traits(rawValue: 4)
        package static let via = Traits(rawValue: 8)
        package static let odd = Traits(rawValue: 16)
        package static let forwarding = Traits(rawValue: 32)
        package static let upgrade = Traits(rawValue: 64)
        /// `TE: trailers`.
        package static let trailers = Traits(rawValue: 128)
    }

    /// The client accepts trailers (RFC 9110 §6.5.1). `Connection` must name `TE`, else it was meant for an earlier
    /// hop.
    package var wantsTrailers: Bool { traits.contains(.trailers) && connection.te && minorVersion >= 1 }

    /// The client asks for a persistent connection (RFC 9112 §9.3).
    package var wantsKeepAlive: Bool {
        minorVersion >= 1 ? !connection.close : connection.keepAlive && !connection.close
    }
}
