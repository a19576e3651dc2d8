//! Every wire format as plain data, one module per version. No I/O.
