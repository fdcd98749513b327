import LanyardFoundations
import LanyardSettings

/// The files behind the TLS of one listener, and how their contents become a context.
package struct ListenerTLSFiles: Sendable {
    private let settings: ListenerSettings.TLS
    /// They outlive a context: sessions are resumed after a reload.
    private let tickets = TLSTicketKeys()

    package init(_ settings: ListenerSettings.TLS) { self.settings = settings }

    /// Of the chain that clients see.
    package var certificateFile: String { settings.certificateFile }

    /// All files, which are to be watched.
    package var paths: [String] {
        [settings.certificateFile, settings.keyFile, settings.clientCAFile].compactMap(\.self)
    }

    package func context(from contents: TLSFileContents) throws(TLSFileContents.FileError) -> TLSServerContext {
        guard let names = TLSClientNames(settings.clientNames) else {
            throw .init("a name of client_names is empty or no address; write DNS:, URI:, email: or IP: and the name")
        }
        let pair = try contents.keyPair(settings.certificateFile, settings.keyFile)
        var authorities: TLSAuthorities?
        if let path = settings.clientCAFile { authorities = try contents.authorities(path) }
        do {
            return try TLSServerContext(
                pair, clientAuthorities: authorities, clientNames: names, tickets: tickets,
                certificateBytesMax: settings.certificateBytesMax)
        } catch {
            throw .init("\(settings.certificateFile) \(error.message)", path: settings.certificateFile)
        }
    }

    /// What clients will object to, although the listener works; nil: nothing.
    package func warning(about context: TLSServerContext) -> String? {
        TLSFileContents.warning(
            about: settings.certificateFile, validFrom: context.validFrom, expiresAt: context.expiresAt)
    }
}
