import Glibc
import LanyardFoundations
import LanyardSettings

/// The files behind the TLS of one route's upstream, and how their contents become a context.
///
/// The start, `lanyard check` and a reload use the same code, so they have the same findings.
package struct UpstreamTLSFiles: Sendable {
    private let name: TLSServerName?
    /// nil: no authority is needed.
    private let caFile: String?
    /// The client certificate with its chain; nil: there is none.
    package let certificateFile: String?
    private let keyFile: String?
    private let skipsVerification: Bool
    private let certificateBytesMax: Int
    /// No file of the system's authorities exists, and one is needed.
    private let lacksAuthorities: Bool

    /// nil: the upstream does not speak TLS.
    package init?(_ settings: UpstreamSettings) {
        guard case .tcp(let host, _, tls: true) = settings.endpoint else { return nil }
        let tls = settings.tls
        name = TLSServerName(host: tls.serverName ?? host)
        certificateBytesMax = tls.certificateBytesMax
        (certificateFile, keyFile, skipsVerification) = (tls.certificateFile, tls.keyFile, tls.skipsVerification)
        let needsSystem = tls.caFile == nil && !skipsVerification
        let system = needsSystem ? TLSAuthorities.systemFiles.first { access($0, R_OK) == 0 } : nil
        caFile = tls.caFile ?? system
        lacksAuthorities = needsSystem && system == nil
    }

    /// All files, which are to be watched.
    package var paths: [String] { [caFile, certificateFile, keyFile].compactMap(\.self) }

    /// A context from the contents of the files.
    ///
    /// - Parameter known: the authorities of files that other upstreams have read: those of the system take a megabyte.
    /// - Throws: a finding of a file, with its path, or one of the name or of the system's authorities without a path. The operator
    ///   corrects the configuration or the file.
    package func context(
        from contents: TLSFileContents, sharing known: inout [String: TLSAuthorities]
    ) throws(TLSFileContents.FileError) -> TLSClientContext {
        guard let name else { throw .init("the name to verify is neither a host name nor an address") }
        if lacksAuthorities {
            throw .init("the system has no file of trusted authorities; install one, or name it as ca_file")
        }
        var authorities: TLSAuthorities?
        if let caFile {
            authorities = known[caFile]
            if authorities == nil { authorities = try contents.authorities(caFile) }
            known[caFile] = authorities
        }
        var pair: TLSKeyPair?
        if let certificateFile, let keyFile { pair = try contents.keyPair(certificateFile, keyFile) }
        do {
            return try TLSClientContext(
                verifying: name, authorities: authorities, keyPair: pair, skipsVerification: skipsVerification,
                certificateBytesMax: certificateBytesMax)
        } catch {
            throw .init("\(certificateFile ?? caFile ?? "TLS") \(error.message)", path: certificateFile ?? caFile)
        }
    }

    /// What is wrong with the files although they can be used.
    package func warnings(in contents: TLSFileContents) -> [(path: String, message: String)] {
        contents.warnings(chain: certificateFile, authorities: caFile)
    }
}
