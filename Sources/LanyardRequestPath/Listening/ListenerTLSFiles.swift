import LanyardFoundations
import LanyardSettings

/// The files behind the TLS of one listener, and how their contents become a context.
package struct ListenerTLSFiles: Sendable {
    private let settings: ListenerSettings.TLS
    /// They outlive a context: sessions are resumed after a change of the files.
    private var tickets = TLSTicketKeys()

    package init(_ settings: ListenerSettings.TLS) { self.settings = settings }

    /// The same files with the ticket keys of the former ones, so that a reload ends no session.
    ///
    /// A session whose client was admitted under other authorities or names is not resumed in any case: the context's own
    /// mark in each ticket separates them.
    ///
    /// - Returns: nil: a file or a name of a client differs.
    package func keepingTickets(of former: ListenerTLSFiles) -> ListenerTLSFiles? {
        guard paths == former.paths, settings.clientNames == former.settings.clientNames else { return nil }
        var files = self
        files.tickets = former.tickets
        return files
    }

    /// All files, which are to be watched.
    package var paths: [String] {
        [settings.certificateFile, settings.keyFile, settings.clientCAFile].compactMap(\.self)
    }

    /// A context from the contents of the files.
    ///
    /// - Throws: a finding of a file, with its path, or one of `client_names` without a path. The operator corrects the configuration or
    ///   the file.
    package func context(from contents: TLSFileContents) throws(TLSFileContents.FileError) -> TLSServerContext {
        guard let names = TLSClientNames(settings.clientNames) else {
            throw .init("a name of client_names is empty or no address; write DNS:, URI:, email: or IP: and the name")
        }
        let pair = try contents.keyPair(settings.certificateFile, settings.keyFile)
        var authorities: TLSAuthorities?
        if let path = settings.clientCAFile { authorities = try contents.authorities(path) }
        do {
            return try TLSServerContext(
                pair, clientAuthorities: authorities, clientNames: names, protocols: settings.protocols,
                tickets: tickets,
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
