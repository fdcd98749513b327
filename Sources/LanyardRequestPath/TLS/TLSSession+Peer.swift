import COpenSSL
import LanyardFoundations

/// What `lanyard check --online` says of an upstream. After the handshake.
extension TLSSession {
    /// When the peer's own certificate ends; nil: it has sent none, or its time cannot be read.
    var peerCertificateEnd: WallTime? {
        guard let certificate = SSL_get1_peer_certificate(ssl) else { return nil }
        defer { X509_free(certificate) }
        let seconds = lanyard_x509_time(X509_get0_notAfter(certificate))
        return seconds == .min ? nil : WallTime(seconds: seconds)
    }

    /// Calls `work` with the peer's own certificate (`X509 *`); nil: it has sent none. After the handshake.
    func withPeerCertificate<Result>(_ work: (OpaquePointer?) -> Result) -> Result {
        guard let certificate = SSL_get1_peer_certificate(ssl) else { return work(nil) }
        defer { X509_free(certificate) }
        return work(certificate)
    }

    /// The peer has asked for a certificate, and this side's handshake was complete before the peer could judge it. With TLS 1.3 the client
    /// sends its certificate last (RFC 8446 2).
    var awaitsVerdict: Bool { wasAskedForCertificate && SSL_version(ssl) >= TLS1_3_VERSION }

    /// The peers have agreed on HTTP/2.
    var hasAgreedOnHTTP2: Bool { selectedProtocol.elementsEqual("h2".utf8) }

    /// What ALPN has led to; empty: nothing. Valid while the session is.
    var selectedProtocol: UnsafeBufferPointer<UInt8> {
        var name: UnsafePointer<UInt8>?
        var length: CUnsignedInt = 0
        SSL_get0_alpn_selected(ssl, &name, &length)
        return UnsafeBufferPointer(start: name, count: Int(length))
    }
}
