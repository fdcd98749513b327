import LanyardFoundations

/// An address that a user is led to. Only `http` and `https` are opened: another scheme would have a program of the user's machine act on
/// what an identity service says (`javascript:`, `file:`, schemes of applications).
package struct WebAddress: Equatable, Sendable {
    /// As it was given.
    package let text: String
    /// Host and port, for the user to judge (RFC 8628 §5.4).
    package let authority: String

    /// nil: another scheme, no host, user info that hides the host, or characters that no URI has (RFC 3986 §2).
    package init?(_ text: String) {
        guard text.utf8.allSatisfy({ 0x21..<0x7f ~= $0 && $0 != UInt8(ascii: "\\") }),
            let authority = URLOrigin(of: text)?.authority
        else { return nil }
        guard !authority.isEmpty, authority.first != ":", !authority.contains("@") else { return nil }
        (self.text, self.authority) = (text, authority)
    }
}
