import CCurl
import LanyardFoundations

/// What libcurl says of the connection of a transfer.
extension CurlTransfer {
    /// Of a line in libcurl's description of a certificate (`CURLOPT_CERTINFO`).
    private static let certificateEndLabel = "Expire date:"

    /// The connection that was made.
    var connection: IdentityConnection {
        if let path = request.unixSocket { return IdentityConnection(address: "unix:\(path)", certificateEnd: nil) }
        var host: UnsafeMutablePointer<CChar>?
        var port = 0
        lanyard_curl_get_string(easy, CURLINFO_PRIMARY_IP, &host)
        lanyard_curl_get_long(easy, CURLINFO_PRIMARY_PORT, &port)
        let text = host.map { String(cString: $0) } ?? ""
        return IdentityConnection(
            address: text.contains(":") ? "[\(text)]:\(port)" : "\(text):\(port)", certificateEnd: certificateEnd)
    }

    /// When the server's own certificate ends, which is the first of its chain.
    var certificateEnd: WallTime? {
        var chain: UnsafeMutablePointer<curl_certinfo>?
        guard lanyard_curl_get_certificates(easy, &chain) == CURLE_OK, let chain, chain.pointee.num_of_certs > 0
        else { return nil }
        var entry = chain.pointee.certinfo[0]
        while let line = entry {
            let text = String(cString: line.pointee.data)
            if text.hasPrefix(Self.certificateEndLabel) {
                let seconds = curl_getdate(String(text.dropFirst(Self.certificateEndLabel.count)), nil)
                return seconds < 0 ? nil : WallTime(seconds: Int64(seconds))
            }
            entry = line.pointee.next
        }
        return nil
    }
}
