/* The access token of a client's requests: a field that is never indexed, and the same in nearly all of them. Its
   encoding is made once, and put into each head in place of a short value (RFC 7541 6.2.3). Huffman coding of a token
   of 700 bytes takes a quarter of a request's instructions otherwise. */
#include <string.h>

#include "internal.h"

/* The short value: one byte, which Huffman coding does not shorten. */
static uint8_t short_value[] = "0";

/* The encoding of one field by a compressor whose table is empty. NULL: there is no memory. */
static uint8_t *encode(const nghttp2_nv *field, size_t *count) {
    nghttp2_hd_deflater *deflater;
    nghttp2_mem memory = lanyard_h2_memory(NULL);
    if (nghttp2_hd_deflate_new2(&deflater, NGHTTP2_DEFAULT_HEADER_TABLE_SIZE, &memory) != 0) return NULL;
    size_t room = nghttp2_hd_deflate_bound(deflater, field, 1);
    uint8_t *bytes = lanyard_h2_take(room, 0);
    ssize_t length = bytes ? nghttp2_hd_deflate_hd(deflater, bytes, room, field, 1) : -1;
    nghttp2_hd_deflate_del(deflater);
    if (length >= 0) {
        *count = (size_t)length;
        return bytes;
    }
    lanyard_h2_drop(bytes);
    return NULL;
}

void lanyard_h2_drop_literal(lanyard_h2 *session) {
    lanyard_h2_literal *literal = &session->literal;
    lanyard_h2_drop(literal->field);
    lanyard_h2_drop(literal->encoded);
    lanyard_h2_drop(literal->short_encoded);
    memset(literal, 0, sizeof *literal);
}

/* A head that is not in a frame yet has the short value: without the encoding it would leave with that. */
void lanyard_h2_forget_literal(lanyard_h2 *session) {
    if (!session->literal.stream) lanyard_h2_drop_literal(session);
}

static int is_kept(const lanyard_h2_literal *literal, const nghttp2_nv *field) {
    return literal->field && literal->name_count == field->namelen && literal->value_count == field->valuelen &&
           memcmp(literal->field, field->name, field->namelen) == 0 &&
           memcmp(literal->field + field->namelen, field->value, field->valuelen) == 0;
}

static int keep(lanyard_h2 *session, const nghttp2_nv *field) {
    lanyard_h2_literal *literal = &session->literal;
    lanyard_h2_drop_literal(session);
    literal->field = lanyard_h2_take(field->namelen + field->valuelen, 0);
    literal->encoded = encode(field, &literal->encoded_count);
    nghttp2_nv other = *field;
    other.value = short_value;
    other.valuelen = 1;
    literal->short_encoded = encode(&other, &literal->short_count);
    if (!literal->field || !literal->encoded || !literal->short_encoded) {
        lanyard_h2_drop_literal(session);
        return 0;
    }
    memcpy(literal->field, field->name, field->namelen);
    memcpy(literal->field + field->namelen, field->value, field->valuelen);
    literal->name_count = field->namelen;
    literal->value_count = field->valuelen;
    return 1;
}

/* Whether the last field may be sent so: it is long and never indexed, and the head fits into one frame. */
static int is_suitable(lanyard_h2 *session, const nghttp2_nv *fields, size_t count) {
    if (session->limits.is_server || session->literal.stream || count == 0) return 0;
    const nghttp2_nv *last = &fields[count - 1];
    if (!(last->flags & NGHTTP2_NV_FLAG_NO_INDEX) || last->valuelen < LITERAL_BYTES_MIN) return 0;
    size_t total = 0;
    for (size_t index = 0; index < count; index++) total += fields[index].namelen + fields[index].valuelen + 8;
    return total < HEAD_BYTES_MAX;
}

int lanyard_h2_begin_literal(lanyard_h2 *session, nghttp2_nv *fields, size_t count) {
    if (!is_suitable(session, fields, count)) return 0;
    nghttp2_nv *last = &fields[count - 1];
    if (!is_kept(&session->literal, last) && !keep(session, last)) return 0;
    last->value = short_value;
    last->valuelen = 1;
    return 1;
}

ssize_t lanyard_h2_put_literal(lanyard_h2 *session, uint8_t *frame, size_t length) {
    lanyard_h2_literal *literal = &session->literal;
    uint32_t number = (uint32_t)(frame[5] & 0x7f) << 24 | (uint32_t)frame[6] << 16 | (uint32_t)frame[7] << 8 | frame[8];
    int32_t stream = (int32_t)number;
    if (frame[3] != NGHTTP2_HEADERS || stream < literal->stream) return (ssize_t)length;
    if (stream > literal->stream) {
        /* Heads leave in order: that one was withdrawn. */
        literal->stream = 0;
        return (ssize_t)length;
    }
    literal->stream = 0;
    size_t start = length - literal->short_count;
    /* A head with another end would go without its token. */
    if (length < HEADER_BYTES + literal->short_count || !(frame[4] & NGHTTP2_FLAG_END_HEADERS) ||
        memcmp(frame + start, literal->short_encoded, literal->short_count) != 0)
        return NGHTTP2_ERR_INVALID_STATE;
    memcpy(frame + start, literal->encoded, literal->encoded_count);
    size_t payload = start + literal->encoded_count - HEADER_BYTES;
    for (int byte = 0; byte < 3; byte++) frame[byte] = (uint8_t)(payload >> (16 - 8 * byte));
    return (ssize_t)(HEADER_BYTES + payload);
}
