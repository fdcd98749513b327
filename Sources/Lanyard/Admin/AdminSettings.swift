/// `admin:` of the configuration (architecture.md 4.2): the API by which users are logged in, switched and logged out.
package struct AdminSettings: Equatable, Sendable {
    /// Bytes of the shortest token: 16 random bytes in hexadecimal.
    package static let tokenLengthMin = 32
    /// Of a token file with fewer.
    package static let shortTokenError = SecretFile.ReadError.unfit(
        "holds fewer than \(tokenLengthMin) characters, which could be guessed; openssl rand -hex 32 makes a good one")

    /// nil: the default socket, `admin.sock` in `folder`.
    package var address: ListenerSettings.Address?
    /// The folder of the default socket, made if it is missing; nil: this process has no place for one.
    package var folder: String?
    /// The bearer token of calls over TCP; always there for a TCP address.
    package var tokenFile: String?

    package init(address: ListenerSettings.Address? = nil, folder: String? = nil, tokenFile: String? = nil) {
        self.address = address
        self.folder = folder
        self.tokenFile = tokenFile
    }

    /// Where the default socket belongs: systemd's runtime folder, root's, or that of the user's session.
    package static func defaultFolder(environment: [String: String], uid: UInt32) -> String? {
        // systemd names several folders with colons between them.
        if let first = environment["RUNTIME_DIRECTORY"]?.split(separator: ":").first, first.hasPrefix("/") {
            return String(first)
        }
        if uid == 0 { return "/run/lanyard" }
        guard let session = environment["XDG_RUNTIME_DIR"], session.hasPrefix("/") else { return nil }
        return session + "/lanyard"
    }
}
