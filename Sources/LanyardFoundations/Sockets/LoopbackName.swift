/// `localhost` and the names below it: they mean this machine, whatever a resolver says (RFC 6761 §6.3).
///
/// A resolver may know none of them, or leave out `::1` where that is the only IPv6 address of the machine
/// (`AI_ADDRCONFIG`). A name server could give another machine's address.
package enum LoopbackName {
    /// Whether `name` is one, in any case of letters and with or without the root's dot.
    package static func matches(_ name: String) -> Bool {
        var rest = name.utf8[...]
        if rest.last == UInt8(ascii: ".") { rest.removeLast() }
        let word = rest.suffix(9)
        guard word.elementsEqual("localhost".utf8, by: { $0 | 0x20 == $1 }) else { return false }
        return word.startIndex == rest.startIndex || rest[rest.index(before: word.startIndex)] == UInt8(ascii: ".")
    }

    /// The addresses in the order in which they are tried. IPv4 first: most servers listen there.
    package static let addresses = ["127.0.0.1", "::1"]
}
