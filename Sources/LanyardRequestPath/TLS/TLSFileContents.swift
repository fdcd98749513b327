import COpenSSL
import LanyardFoundations

/// What the files of one side's TLS hold, by path, and what is made of them.
///
/// The start, `lanyard check` and a reload use the same code, so they have the same findings.
package struct TLSFileContents: Sendable {
    /// A file that cannot be used. A type of its own, because the start says where it is configured, and a reload logs it.
    package struct FileError: Error, Equatable, Sendable {
        /// One clause with path and remedy. Never holds a byte of a file.
        package let message: String
        /// The file at fault; nil: no file is.
        package let path: String?

        package init(_ message: String, path: String? = nil) {
            self.message = message
            self.path = path
        }
    }

    /// Bytes of the largest file. Debian's file of all authorities has 220 KiB.
    package static let bytesMax = 4 << 20

    /// Changed files are used when none of them has changed for this time. It is a little longer than the shortest interval of a
    /// watch, and the change of one has the others read: a certificate and a key that change together are used together.
    package static let changeDelay = FileWatch.interval + .milliseconds(700)

    package private(set) var byPath: [String: Secret] = [:]
    /// When the read began that has found the content last.
    private var readAt: [String: Instant] = [:]

    /// Of no file.
    package init() {}

    /// Reads the files. Blocks as long as the disk does.
    ///
    /// - Throws: as `read` does.
    package init(reading paths: [String]) throws(FileError) { try read(paths) }

    /// Reads the files that were not read yet. Blocks as long as the disk does.
    ///
    /// - Throws: the first file that cannot be read, with its path and the remedy. The files before it have been read.
    package mutating func read(_ paths: [String]) throws(FileError) {
        for path in paths where byPath[path] == nil {
            do {
                let content = try SecretFile.readWhole(path, bytesMax: Self.bytesMax)
                (byPath[path], readAt[path]) = (PEMText.normalized(content.secret), content.readAt)
            } catch {
                throw FileError(error.message(path: path), path: path)
            }
        }
    }

    /// Replaces the content of a file. False if it was the same.
    package mutating func replace(_ path: String, by content: SecretFile.Content) -> Bool {
        let text = PEMText.normalized(content.secret)
        guard byPath[path] != text else { return false }
        (byPath[path], readAt[path]) = (text, content.readAt)
        return true
    }

    /// A read that began then has found the same content.
    package mutating func confirm(_ path: String, at instant: Instant) {
        if let known = readAt[path] { readAt[path] = max(known, instant) }
    }

    /// Takes the time of a file that holds the same content there.
    package mutating func confirm(_ path: String, as other: TLSFileContents) {
        if byPath[path] == other.byPath[path], let instant = other.readAt[path] { confirm(path, at: instant) }
    }

    /// Takes these files from other contents.
    package mutating func adopt(_ paths: [String], from other: TLSFileContents) {
        for path in paths { (byPath[path], readAt[path]) = (other.byPath[path], other.readAt[path]) }
    }

    /// Takes over what others have found later.
    ///
    /// - Returns: the paths whose contents differ from before.
    package mutating func renew(from others: [TLSFileContents]) -> Set<String> {
        var changed: Set<String> = []
        for other in others {
            for (path, instant) in other.readAt {
                guard let own = readAt[path], instant > own else { continue }
                if byPath[path] != other.byPath[path] { changed.insert(path) }
                adopt([path], from: other)
            }
        }
        return changed
    }

    /// Checks the files of a client's side that is not of the request path. Its findings are those of listeners and upstreams.
    ///
    /// - Throws: the first finding of a file, with its path. The operator corrects the file.
    package func checkClientFiles(
        caFile: String?, certificateFile: String?, keyFile: String?
    ) throws(FileError) {
        if let caFile { _ = try authorities(caFile) }
        guard let certificateFile, let keyFile else { return }
        let pair = try keyPair(certificateFile, keyFile)
        do throws(TLSFileError) {
            guard let raw = lanyard_tls_new_context(0) else { throw .noMemory }
            let context = OpenSSLReference<OpenSSLContext>(taking: raw)
            try pair.install(in: context.raw)
        } catch {
            throw FileError("\(certificateFile) \(error.message)", path: certificateFile)
        }
    }

    func keyPair(_ certificateFile: String, _ keyFile: String) throws(FileError) -> TLSKeyPair {
        let result = bytes(certificateFile) { chain in
            bytes(keyFile) { key in
                Result { () throws(TLSKeyPair.PairError) in try TLSKeyPair(chain: chain, key: key) }
            }
        }
        switch result {
        case .success(let pair): return pair
        case .failure(.chain(let error)):
            throw FileError("\(certificateFile) \(message(error, certificateFile))", path: certificateFile)
        case .failure(.key(let error)): throw FileError("\(keyFile) \(message(error, keyFile))", path: keyFile)
        }
    }

    func authorities(_ path: String) throws(FileError) -> TLSAuthorities {
        let result = bytes(path) { pem in Result { () throws(TLSFileError) in try TLSAuthorities(pem) } }
        do {
            return try result.get()
        } catch {
            throw FileError("\(path) \(message(error, path))", path: path)
        }
    }

    /// A file without blocks may have them in another form.
    private func message(_ error: TLSFileError, _ path: String) -> String {
        guard error == .noCertificate || error == .noKey else { return error.message }
        return bytes(path, PEMText.finding) ?? error.message
    }

    /// What the peers will object to in a chain that can be used; nil: nothing.
    ///
    /// - Parameter path: of the chain's file.
    private static func warning(
        about path: String, validFrom: WallTime, expiresAt: WallTime, at now: WallTime
    ) -> String? {
        if expiresAt <= now {
            return
                "a certificate of \(path) has expired at \(Timestamp.text(expiresAt)); renew it, it is read again by itself"
        }
        if validFrom > now {
            return "a certificate of \(path) is not valid before \(Timestamp.text(validFrom)); check the clock"
        }
        return nil
    }

    /// What is wrong with files that have been read and can be used: a chain that peers will refuse, or authorities of which none is
    /// valid any more.
    ///
    /// - Parameters:
    ///   - chain: the path of a certificate's file; nil: there is none.
    ///   - authorities: the path of their file; nil: there is none.
    package func warnings(
        chain: String?, authorities: String?, at now: WallTime = .now
    ) -> [(path: String, message: String)] {
        let ofChain = chain.flatMap { path in
            certificates(path).flatMap {
                Self.warning(about: path, validFrom: $0.validFrom, expiresAt: $0.expiresAt, at: now).map { (path, $0) }
            }
        }
        let ofAuthorities = authorities.flatMap { path -> (path: String, message: String)? in
            guard let end = certificates(path)?.lastExpiresAt, end <= now else { return nil }
            let message =
                "no certificate of \(path) is valid any more, the last one ended at \(Timestamp.text(end)): no peer is "
                + "accepted; renew it, it is read again by itself"
            return (path, message)
        }
        return [ofChain, ofAuthorities].compactMap(\.self)
    }

    /// What ends within this time, and has not ended yet.
    ///
    /// - Parameters: as of `warnings`. Of authorities the last one counts.
    package func endings(
        chain: String?, authorities: String?, within notice: Duration, at now: WallTime = .now
    ) -> [(path: String, message: String)] {
        let ends = [
            chain.flatMap { path in certificates(path).map { (path, $0.expiresAt, "the certificate of \(path) ends") }
            },
            authorities.flatMap { path in
                certificates(path).map { (path, $0.lastExpiresAt, "the last certificate of \(path) ends") }
            },
        ].compactMap(\.self)
        return ends.compactMap { path, end, text in
            guard end > now, end <= now + notice else { return nil }
            let days = Int((end.seconds - now.seconds) / 86_400)
            let left = days == 0 ? "in less than a day" : "in \(days) \(days == 1 ? "day" : "days")"
            return (path, "\(text) \(left), at \(Timestamp.text(end)); renew it, it is read again by itself")
        }
    }

    private func certificates(_ path: String) -> TLSCertificates? {
        let read = bytes(path) { bytes in
            Result { () throws(TLSFileError) in try TLSCertificates.read(bytes) }
        }
        return try? read.get()
    }

    private func bytes<Value>(_ path: String, _ body: (UnsafeRawBufferPointer) -> Value) -> Value {
        guard let content = byPath[path] else { return body(UnsafeRawBufferPointer(start: nil, count: 0)) }
        return content.withBytes(body)
    }
}
