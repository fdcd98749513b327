import CCurl
import COpenSSL
import LanyardFoundations
import LanyardSettings

/// An easy handle of libcurl, with what it uses until its cleanup.
struct CurlEasyHandle: ~Copyable {
    let easy: UnsafeMutableRawPointer
    /// The field lines of the request; nil: there are none yet.
    var list: UnsafeMutablePointer<curl_slist>?
    /// Holds a description of the latest error.
    let errorBuffer: UnsafeMutablePointer<CChar>
    /// Counts messages of TLS that carry no data.
    let tally: UnsafeMutablePointer<lanyard_tls_tally>

    /// The field lines for a proxy alone; nil: there are none.
    private var proxyList: UnsafeMutablePointer<curl_slist>?

    /// nil: there is no memory.
    init?() {
        guard let tally = lanyard_tls_make_tally() else { return nil }
        guard let easy = curl_easy_init() else {
            lanyard_tls_release_tally(tally)
            return nil
        }
        (self.easy, self.tally) = (easy, tally)
        errorBuffer = .allocate(capacity: Int(CURL_ERROR_SIZE))
        errorBuffer.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
    }

    /// Sets how the transfer leaves the machine. Before it begins.
    ///
    /// - Parameter isUsed: false: a proxy is not used, whatever is configured.
    /// - Returns: false: libcurl refuses an option.
    mutating func setProxy(_ trust: CurlTrust, isUsed: Bool) -> Bool {
        switch isUsed ? trust.proxy : .none {
        case .environment: return true
        case .none: return lanyard_curl_set_string(easy, CURLOPT_PROXY, "") == CURLE_OK
        case .url(let url):
            // An explicit proxy applies to every host, whatever `no_proxy` says.
            return lanyard_curl_set_string(easy, CURLOPT_PROXY, url) == CURLE_OK
                && lanyard_curl_set_string(easy, CURLOPT_NOPROXY, "") == CURLE_OK
                && (trust.tls.proxyAuthorization.map { setProxyAuthorization($0) } ?? true)
        }
    }

    /// A field of its own: libcurl would decode `%` in the user and the password of an option. Services never get it.
    private mutating func setProxyAuthorization(_ value: Secret) -> Bool {
        var line = SecretBuffer(capacity: value.count + 32)
        line.append("Proxy-Authorization: ")
        value.withBytes { line.append($0) }
        line.append(0)
        guard
            let list = line.withBytes({
                curl_slist_append(nil, $0.baseAddress!.assumingMemoryBound(to: CChar.self))
            })
        else { return false }
        proxyList = list
        return lanyard_curl_set_long(easy, CURLOPT_HEADEROPT, Int(CURLHEADER_SEPARATE)) == CURLE_OK
            && lanyard_curl_set_list(easy, CURLOPT_PROXYHEADER, list) == CURLE_OK
    }

    deinit {
        curl_easy_cleanup(easy)
        curl_slist_free_all(list)
        curl_slist_free_all(proxyList)
        errorBuffer.deallocate()
        lanyard_tls_release_tally(tally)
    }
}

/// A multi handle of libcurl. Its easy handles are removed before it goes. Its cleanup calls the socket callback.
struct CurlMultiHandle: ~Copyable {
    let raw: UnsafeMutableRawPointer

    /// nil: there is no memory.
    init?() {
        guard let raw = curl_multi_init() else { return nil }
        self.raw = raw
    }

    deinit { curl_multi_cleanup(raw) }
}
