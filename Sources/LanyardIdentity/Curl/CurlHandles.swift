import CCurl
import COpenSSL

/// An easy handle of libcurl, with what it uses until its cleanup.
struct CurlEasyHandle: ~Copyable {
    let easy: UnsafeMutableRawPointer
    /// The field lines of the request; nil: there are none yet.
    var list: UnsafeMutablePointer<curl_slist>?
    /// Holds a description of the latest error.
    let errorBuffer: UnsafeMutablePointer<CChar>
    /// Counts messages of TLS that carry no data.
    let tally: UnsafeMutablePointer<lanyard_tls_tally>

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

    deinit {
        curl_easy_cleanup(easy)
        curl_slist_free_all(list)
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
