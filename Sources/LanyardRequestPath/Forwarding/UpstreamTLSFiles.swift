import Glibc
import LanyardFoundations
import LanyardSettings

/// The files behind the TLS of one route's upstream, and how their contents become a context.
///
/// The start, `lanyard check` and a reload use the same code, so they have the same findings.
package struct UpstreamTLSFiles: Sendable {
    /// A file that cannot be used. A type of its own, because the configuration's place is added to it, or it is logged.
    package struct FileError: Error, Equatable, Sendable {
        /// One sentence with the remedy. Never holds a byte of a file.
        package let message: String

        package init(message: String) { self.message = message }
    }

    /// Bytes of the largest file. Debian's file of all authorities has 220 KiB.
    package static let bytesMax = 4 << 20

    private let name: TLSServerName?
    /// nil: no authority is needed.
    private let caFile: String?
    private let certificateFile: String?
    private let keyFile: String?
    private let skipsVerification: Bool
    /// No file of the system's authorities exists, and one is needed.
    private let lacksAuthorities: Bool

    /// nil: the upstream does not speak TLS.
    package init?(_ settings: UpstreamSettings) {
        guard case .tcp(let host, _, tls: true) = settings.endpoint else { return nil }
        let tls = settings.tls
        name = TLSServerName(host: tls.serverName ?? host)
        (certificateFile, keyFile, skipsVerification) = (tls.certificateFile, tls.keyFile, tls.skipsVerification)
        let needsSystem = tls.caFile == nil && !skipsVerification
        let system = needsSystem ? TLSAuthorities.systemFiles.first { access($0, R_OK) == 0 } : nil
        caFile = tls.caFile ?? system
        lacksAuthorities = needsSystem && system == nil
    }

    /// All files, which are to be watched.
    package var paths: [String] { [caFile, certificateFile, keyFile].compactMap(\.self) }

    /// Reads the files. Blocks as long as the disk does.
    package func read() throws(FileError) -> [String: Secret] {
        var contents: [String: Secret] = [:]
        for path in paths where contents[path] == nil {
            do {
                contents[path] = try SecretFile.readWhole(path, bytesMax: Self.bytesMax).secret
            } catch {
                throw FileError(message: error.message(path: path))
            }
        }
        return contents
    }

    /// A context from the contents of the files, by path.
    ///
    /// - Parameter known: the authorities of files that other upstreams have read: those of the system take a megabyte.
    package func context(
        from contents: [String: Secret], sharing known: inout [String: TLSAuthorities]
    ) throws(FileError) -> TLSClientContext {
        guard let name else { throw FileError(message: "the name to verify is neither a host name nor an address") }
        if lacksAuthorities {
            throw FileError(
                message: "the system has no file of trusted authorities; install one, or name it as ca_file")
        }
        var authorities: TLSAuthorities?
        if let caFile {
            authorities = known[caFile]
            if authorities == nil { authorities = try Self.authorities(caFile, contents) }
            known[caFile] = authorities
        }
        let pair = try keyPair(contents)
        do {
            return try TLSClientContext(
                verifying: name, authorities: authorities, keyPair: pair, skipsVerification: skipsVerification)
        } catch {
            throw FileError(message: "\(certificateFile ?? caFile ?? "TLS") \(error.message)")
        }
    }

    private func keyPair(_ contents: [String: Secret]) throws(FileError) -> TLSKeyPair? {
        guard let certificateFile, let keyFile, let chain = contents[certificateFile], let key = contents[keyFile]
        else { return nil }
        let result = chain.withBytes { chain in
            key.withBytes { key in
                Result { () throws(TLSKeyPair.PairError) in try TLSKeyPair(chain: chain, key: key) }
            }
        }
        switch result {
        case .success(let pair): return pair
        case .failure(.chain(let error)): throw FileError(message: "\(certificateFile) \(error.message)")
        case .failure(.key(let error)): throw FileError(message: "\(keyFile) \(error.message)")
        }
    }

    private static func authorities(
        _ path: String, _ contents: [String: Secret]
    ) throws(FileError) -> TLSAuthorities? {
        guard let content = contents[path] else { return nil }
        do {
            return try content.withBytes { bytes in
                Result { () throws(TLSFileError) in try TLSAuthorities(bytes) }
            }.get()
        } catch {
            throw FileError(message: "\(path) \(error.message)")
        }
    }
}
