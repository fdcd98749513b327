/// The beginning of an `http` or `https` URL, read once. Every question of TLS is asked of it and not of the text: a scheme has any case
/// (RFC 3986 §3.1), and a compare of texts takes `HTTP://` for something else than libcurl does.
package struct URLOrigin: Equatable, Sendable {
    /// The scheme is `https`.
    package let isTLS: Bool
    /// Between the scheme and the path, as it is written. Not checked; it may be empty, or have user info.
    package let authority: String
    /// Path, query and fragment, as they are written.
    package let rest: String

    /// nil: another scheme, or none.
    package init?(of url: some StringProtocol) {
        guard let colon = url.utf8.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        switch url[..<colon].lowercased() {
        case "https": isTLS = true
        case "http": isTLS = false
        default: return nil
        }
        let behind = url[colon...].dropFirst()
        guard behind.hasPrefix("//") else { return nil }
        let address = behind.dropFirst(2)
        let end = address.utf8.firstIndex { "/?#\\".utf8.contains($0) } ?? address.endIndex
        authority = String(address[..<end])
        rest = String(address[end...])
    }

    /// In lower case.
    package var scheme: String { isTLS ? "https" : "http" }
    /// The port of an authority without one.
    package var defaultPort: UInt16 { isTLS ? 443 : 80 }
}
