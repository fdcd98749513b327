import LanyardFoundations
import LanyardSettings

/// The files behind the TLS of one listener, and how their contents become a context.
package struct ListenerTLSFiles: Sendable {
    private let settings: ListenerSettings.TLS
    /// They outlive a context: sessions are resumed after a reload.
    private let tickets = TLSTicketKeys()

    package init(_ settings: ListenerSettings.TLS) { self.settings = settings }

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

    /// What is wrong with the files although they can be used.
    package func warnings(in contents: TLSFileContents) -> [(path: String, message: String)] {
        contents.warnings(chain: settings.certificateFile, authorities: settings.clientCAFile)
    }
}
