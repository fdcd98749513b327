import LanyardConfiguration
import LanyardFoundations

/// What commands print for operators: lines that no terminal executes, and that a terminal shows in their order.
///
/// The one way from a command to the terminal. A text of any origin becomes one line in which `?` stands for each control character, line
/// end, bidirectional control and other invisible character. Only `TextTable` adds escape sequences, which are its own.
package struct OperatorText: Equatable, Sendable, ExpressibleByStringInterpolation {
    /// Without line ends.
    package let lines: [String]

    /// One line.
    package init(line text: String) { lines = [ConfigurationText.line(text)] }

    /// One line.
    package init(stringLiteral text: String) { self.init(line: text) }

    /// Parts below one another.
    package init(_ parts: [OperatorText]) { lines = parts.flatMap(\.lines) }

    /// A text of Lanyard's own that has line ends and tabs, such as help.
    package init(page text: String) {
        let own = text.hasSuffix("\n") ? text.dropLast() : text[...]
        lines = own.split(separator: "\n", omittingEmptySubsequences: false).map { line in
            line.split(separator: "\t", omittingEmptySubsequences: false).map { ConfigurationText.line(String($0)) }
                .joined(separator: "\t")
        }
    }

    /// Lines whose parts are safe, with styles.
    init(styled lines: [String]) { self.lines = lines }
}

/// JSON of another program on its way to standard output.
package enum PrintableJSON {
    /// The same document: what a terminal would execute, or show in another order, is written as an escape of JSON.
    ///
    /// - Returns: nil: it is not one JSON text.
    package static func text(_ document: Secret) -> Secret? {
        guard JSONValue.read(document) != nil else { return nil }
        return document.withBytes { bytes in
            var printable = SecretBuffer(capacity: bytes.count)
            var (decoder, rest) = (UTF8(), bytes.makeIterator())
            while true {
                switch decoder.decode(&rest) {
                case .emptyInput: return printable.seal()
                case .error: return nil
                case .scalarValue(let scalar): append(scalar, to: &printable)
                }
            }
        }
    }

    private static func append(_ scalar: Unicode.Scalar, to text: inout SecretBuffer) {
        if scalar == "\n" || scalar == "\t" || ConfigurationText.isPrintable(scalar) {
            for unit in UTF8.encode(scalar)! { text.append(unit) }
        } else if scalar == "\r" {
            // Outside of texts it is white space, and in them it is an escape already.
            text.append(UInt8(ascii: " "))
        } else {
            for unit in UTF16.encode(scalar)! {
                text.append("\\u")
                for place in [12, 8, 4, 0] { text.append(Hex.digit(UInt8(unit >> place & 0xf))) }
            }
        }
    }
}
