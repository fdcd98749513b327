/// Files of certificates and keys in PEM, as OpenSSL and libcurl read them: each block begins at the start of a line.
///
/// Editors and other programs write what both would take as another line, and then skip the block without a word.
package enum PEMText {
    /// The text with line feeds as line ends, without byte order marks, and without blanks at the start of lines (RFC 7468 §3 lets readers
    /// ignore them). A file that holds none of these stays the same object.
    package static func normalized(_ text: Secret) -> Secret {
        text.withBytes { bytes in
            guard needsChange(bytes) else { return text }
            return Secret(capacity: bytes.count) { room in
                var (count, index, isLineStart) = (0, 0, true)
                while index < bytes.count {
                    let byte = bytes[index]
                    index += 1
                    switch byte {
                    case 0xef where isMark(bytes, at: index - 1):
                        index += 2
                        continue
                    case UInt8(ascii: " "), UInt8(ascii: "\t"):
                        if isLineStart { continue }
                    case UInt8(ascii: "\r"):
                        // A line feed follows, or this is the end of a line of an old editor.
                        if index < bytes.count, bytes[index] == UInt8(ascii: "\n") { continue }
                        room[count] = UInt8(ascii: "\n")
                        (count, isLineStart) = (count + 1, true)
                        continue
                    default: break
                    }
                    room[count] = byte
                    (count, isLineStart) = (count + 1, byte == UInt8(ascii: "\n"))
                }
                return count
            }
        }
    }

    /// What is wrong with a file in which no block begins at the start of a line; nil: it has no block at all.
    package static func finding(in bytes: UnsafeRawBufferPointer) -> String? {
        if SecretText.isWide(bytes) { return SecretText.wideMessage }
        // Variables and JSON carry line ends as these two characters.
        let escaped = "-----\\n"
        return contains(escaped, bytes) ? "has its line ends written as \\n: write it anew with printf %b" : nil
    }

    private static func contains(_ text: String, _ bytes: UnsafeRawBufferPointer) -> Bool {
        let wanted = Array(text.utf8)
        guard bytes.count >= wanted.count else { return false }
        return (0...(bytes.count - wanted.count)).contains { bytes[$0..<($0 + wanted.count)].elementsEqual(wanted) }
    }

    private static func needsChange(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var isLineStart = true
        for (index, byte) in bytes.enumerated() {
            if byte == UInt8(ascii: "\r") || isLineStart && (byte == 0x20 || byte == 0x09) || isMark(bytes, at: index) {
                return true
            }
            isLineStart = byte == UInt8(ascii: "\n")
        }
        return false
    }

    private static func isMark(_ bytes: UnsafeRawBufferPointer, at index: Int) -> Bool {
        bytes[index] == 0xef && index + 2 < bytes.count && bytes[index + 1] == 0xbb && bytes[index + 2] == 0xbf
    }
}
